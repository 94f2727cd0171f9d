"""Whether the hub still holds what was pushed: every hash computed again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .names import is_commit
from .repository import Repository
from .revisions import Revision, StoredFile, hash_file


def find_damage(repository: Repository) -> list[str]:
    """A line for each thing that is not as it was pushed, naming it; an empty list for a sound repository."""
    repository.check_exists()
    return [*_find_damage(repository)]


def _find_damage(repository: Repository) -> Iterator[str]:
    name = repository.repo_id
    for reference, commit in repository.references().items():
        if not is_commit(commit) or not (repository.folder / "commits" / f"{commit}.json").is_file():
            yield f"{name}@{reference}: expected the name of a revision, found {commit[:60]!a}"
    contents: dict[str, tuple[StoredFile, list[str]]] = {}
    for commit in _reached(repository):
        try:
            revision = Revision.read(repository.folder / "commits" / f"{commit}.json")
        except (ValueError, OSError) as error:
            yield f"{name}@{commit[:12]}: {error}"
            continue
        if not revision.expected_id == revision.id == commit:
            yield f"{name}@{commit[:12]}: expected a record that hashes to this name, found {revision.expected_id}"
        for path, file in revision.files.items():
            where = f"{name}@{revision.id[:12]} {path}"
            contents.setdefault(file.sha256, (file, []))[1].append(where)
            link = repository.folder / "snapshots" / revision.id / path
            if problem := _link_problem(link, repository.blob(file)):
                yield f"{where}: {problem}"
    for file, places in contents.values():
        if problem := _content_problem(repository.blob(file), file):
            more = f" (and {len(places) - 1} more)" if len(places) > 1 else ""
            yield f"{places[0]}{more}: {problem}"


def _reached(repository: Repository) -> list[str]:
    """Every revision that a branch or a tag leads to; others are what a killed push left, and no damage."""
    waiting = [commit for commit in repository.references().values() if is_commit(commit)]
    found: dict[str, None] = {}
    while waiting:
        commit = waiting.pop()
        if commit not in found:
            found[commit] = None
            with suppress(ValueError, OSError):  # reported by the caller
                parent = Revision.read(repository.folder / "commits" / f"{commit}.json").parent
                waiting += [parent] if parent else []
    return [*found]


def _link_problem(link: Path, blob: Path) -> str | None:
    if not os.path.lexists(link):
        return f"expected {link}, found none"
    if link.is_symlink():
        if link.resolve() != blob.resolve():
            return f"expected a link to {blob}, found {os.readlink(link)}"
    elif blob.is_file() and not os.path.samefile(link, blob) and hash_file(link).sha256 != blob.name:
        return f"expected a copy of {blob}, found other content"
    return None


def _content_problem(blob: Path, expected: StoredFile) -> str | None:
    remedy = "remove this blob and push the folder again"
    try:
        found = hash_file(blob)
    except FileNotFoundError:
        return f"expected {expected.size:,} bytes in {blob}, found no such file; push the folder again"
    except OSError as error:
        return f"expected {expected.size:,} bytes in {blob}, found that they cannot be read: {error}; {remedy}"
    if found != expected:
        return (
            f"expected {expected.size:,} bytes of SHA-256 {expected.sha256[:12]}… in {blob}, found {found.size:,} of "
            f"{found.sha256[:12]}…; {remedy}"
        )
    return None


__all__ = ["find_damage"]
