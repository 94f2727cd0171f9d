"""One repository of the hub: a folder in the layout of the Hub's cache.

    models--org--name/
      blobs/<sha256>            contents, each stored once
      snapshots/<revision>/     files of a revision, as relative links to blobs
      refs/main, refs/v1        branches and tags: the name of a revision
      commits/<revision>.json   the record of a revision; clients of the Hub do not look here
      tags.json                 which references are tags

A revision is published in this order: blobs, record, snapshot, reference. Whoever reads through a reference therefore
finds everything behind it; what a killed writer left is reached by no reference, and the next writer removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ConflictError, EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError
from .names import DEFAULT_BRANCH, check_file_path, check_reference, check_repo_id, check_revision, is_commit
from .revisions import Revision, StoredFile
from .staging import repository_lock, sync_folder, write_file

PREFIX = "models--"
SHORTEST_COMMIT = 7


@dataclass(frozen=True)
class Staged:
    """A content that waits in a staging area to become a blob."""

    stored: StoredFile
    source: Path


class Repository:
    """Reading needs no lock; `locked` and the methods that change things say so."""

    def __init__(self, hub: Path, repo_id: str):
        self.hub, self.repo_id = hub, check_repo_id(repo_id)
        self.folder = hub / (PREFIX + repo_id.replace("/", "--"))

    # ---- reading

    def exists(self) -> bool:
        return (self.folder / "commits").is_dir() and bool(self.references())

    def check_exists(self) -> None:
        if not self.exists():
            raise RepositoryNotFoundError(
                f"expected the repository {self.repo_id} in {self.hub}, found none of this name; "
                "`greffe hub list` shows what there is"
            )

    def references(self) -> dict[str, str]:
        """Branches and tags, with the revisions that they name."""
        folder = self.folder / "refs"
        found = {}
        for file in sorted(folder.iterdir()) if folder.is_dir() else []:
            with contextlib.suppress(OSError):  # removed a moment ago, or a folder
                found[file.name] = file.read_text().strip()
        return found

    def tags(self) -> dict[str, str]:
        """Tags, with the revisions that they name."""
        known, references = self._tag_records(), self.references()
        return {name: references[name] for name in known if name in references}

    def branches(self) -> dict[str, str]:
        known = self._tag_records()
        return {name: commit for name, commit in self.references().items() if name not in known}

    def _tag_records(self) -> dict[str, Any]:
        with contextlib.suppress(FileNotFoundError):
            return dict(json.loads((self.folder / "tags.json").read_text(encoding="utf-8")))
        return {}

    def resolve(self, revision: str = DEFAULT_BRANCH) -> str:
        """The full name of a revision from a tag, a branch, or its first digits."""
        self.check_exists()
        with contextlib.suppress(ValueError):  # what cannot be a name names nothing
            check_revision(revision)
            if not is_commit(revision) and (commit := self.references().get(revision)):
                return commit
            records = [file.stem for file in (self.folder / "commits").glob(f"{revision}*.json")]
            if len(records) == 1 and len(revision) >= SHORTEST_COMMIT:
                return records[0]
        tags = ", ".join(self.tags()) or "none"
        raise RevisionNotFoundError(
            f"expected a revision of {self.repo_id}, found {revision[:120]!a}; its tags: {tags}; "
            f"`greffe hub log {self.repo_id}` lists every revision"
        )

    def revision(self, revision: str = DEFAULT_BRANCH) -> Revision:
        commit = self.resolve(revision)
        return Revision.read(self.folder / "commits" / f"{commit}.json")

    def snapshot(self, revision: str = DEFAULT_BRANCH) -> Path:
        return self.folder / "snapshots" / self.resolve(revision)

    def history(self, revision: str = DEFAULT_BRANCH) -> Iterator[Revision]:
        """A revision and those before it, newest first."""
        commit: str | None = self.resolve(revision)
        while commit is not None and (file := self.folder / "commits" / f"{commit}.json").is_file():
            found = Revision.read(file)
            yield found
            commit = found.parent

    def blob(self, file: StoredFile) -> Path:
        return self.folder / "blobs" / file.sha256

    def file(self, revision: Revision, path: str) -> StoredFile:
        try:
            return revision.files[check_file_path(path)]
        except (KeyError, ValueError):
            raise EntryNotFoundError(
                f"expected a file of {self.repo_id}@{revision.id[:12]}, found {path[:120]!a}; it has "
                f"{', '.join(list(revision.files)[:8]) or 'no files'}"
            ) from None

    # ---- writing

    def locked(self) -> contextlib.AbstractContextManager[None]:
        return repository_lock(self.hub, self.folder.name)

    def create(self, area: Path) -> None:
        """The empty folders, all at once: a repository without `snapshots` would be damaged to the Hub's clients."""
        self._check_case()
        if not self.folder.exists():
            new = area / uuid.uuid4().hex
            for name in ("snapshots", "blobs", "refs", "commits"):
                (new / name).mkdir(parents=True)
            os.rename(new, self.folder)
            sync_folder(self.hub)
        for name in ("snapshots", "blobs", "refs", "commits"):  # a folder that a client of the Hub made
            (self.folder / name).mkdir(exist_ok=True)

    def _check_case(self) -> None:
        names = [folder.name for folder in self.hub.glob(f"{PREFIX}*")]
        for name in names if self.folder.name not in names else []:
            if name.casefold() == self.folder.name.casefold():
                taken = name.removeprefix(PREFIX).replace("--", "/")
                raise ConflictError(
                    f"expected a name that differs from others by more than case, found {self.repo_id} beside {taken}; "
                    "macOS and Windows would mix them up"
                )

    def publish(
        self,
        area: Path,
        message: str,
        build: Callable[[Revision | None], Mapping[str, Staged | StoredFile]],
        branch: str = DEFAULT_BRANCH,
        tag: str | None = None,
    ) -> Revision:
        """Make a revision of the files that `build` gives, from those of the revision before. The lock must be held."""
        self._check_branch(branch)
        if tag is not None:
            self._check_new_tag(tag)
        self.create(area)
        self.clean()
        before = self.references().get(branch)
        try:
            parent = self.revision(before) if before and self._has_record(before) else None
            contents = build(parent)
            _check_no_file_is_a_folder(contents)
            stored = {
                path: content.stored if isinstance(content, Staged) else content for path, content in contents.items()
            }
            revision = Revision.make(parent.id if parent else None, message, stored)
            self._store_blobs(contents)
            write_file(self.folder / "commits" / f"{revision.id}.json", revision.to_json(), area)
            self._store_snapshot(revision, area)
            self._write_reference(branch, revision.id, area)
            if tag is not None:
                self._write_tag(tag, revision.id, area)
            return revision
        except BaseException:  # Ctrl-C too: nothing of it stays
            with contextlib.suppress(OSError, ValueError):
                self._undo(branch, before, area)
            raise

    def _undo(self, branch: str, before: str | None, area: Path) -> None:
        if before is None:
            (self.folder / "refs" / branch).unlink(missing_ok=True)
        elif self.references().get(branch) != before:
            self._write_reference(branch, before, area)
        self.clean()
        if not self.references() and not any((self.folder / "snapshots").iterdir()):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _has_record(self, commit: str) -> bool:
        return (self.folder / "commits" / f"{commit}.json").is_file()

    def _store_blobs(self, contents: Mapping[str, Staged | StoredFile]) -> None:
        for path, content in contents.items():
            blob = self.blob(content.stored if isinstance(content, Staged) else content)
            if isinstance(content, Staged) and content.source.is_file():  # the same content may be under two paths
                os.replace(content.source, blob)
            elif not blob.is_file():
                raise FileNotFoundError(
                    f"expected the content of {path} in {blob}, found none; `greffe hub verify {self.repo_id}`"
                )
        sync_folder(self.folder / "blobs")

    def _store_snapshot(self, revision: Revision, area: Path) -> None:
        new, final = area / uuid.uuid4().hex, self.folder / "snapshots" / revision.id
        new.mkdir()
        for path, file in revision.files.items():
            (new / path).parent.mkdir(parents=True, exist_ok=True)
            depth = path.count("/")
            _link(self.blob(file), "../" * (depth + 2) + f"blobs/{file.sha256}", new / path)
        for folder in [new, *(entry for entry in new.rglob("*") if entry.is_dir() and not entry.is_symlink())]:
            sync_folder(folder)
        os.rename(new, final)
        sync_folder(final.parent)

    def _write_reference(self, name: str, commit: str, area: Path) -> None:
        # No newline: clients take the file's whole text for the name.
        write_file(self.folder / "refs" / name, commit, area)

    # ---- tags and branches

    def _check_branch(self, branch: str) -> None:
        check_reference(branch)
        if branch in self.tags():
            raise ConflictError(f"expected a branch of {self.repo_id} to push to, found the tag {branch}; tags stay")

    def _check_new_tag(self, tag: str) -> None:
        check_reference(tag)
        if found := self.references().get(tag):
            raise ConflictError(
                f"expected a new tag for {self.repo_id}, found {tag} at {found[:12]}; choose another, or forget it "
                f"with `greffe hub delete {self.repo_id}@{tag}`"
            )
        if tag == DEFAULT_BRANCH:
            raise ConflictError(f"expected a tag, found {DEFAULT_BRANCH!r}, the name of the branch")

    def _write_tag(self, tag: str, commit: str, area: Path, message: str = "") -> None:
        records = {**self._tag_records(), tag: {"message": message}}
        write_file(self.folder / "tags.json", json.dumps(records, indent=1, ensure_ascii=False), area)
        self._write_reference(tag, commit, area)

    def add_tag(self, tag: str, revision: str, area: Path, message: str = "") -> str:
        commit = self.resolve(revision)
        self._check_new_tag(tag)
        self._write_tag(tag, commit, area, message)
        return commit

    def add_branch(self, branch: str, revision: str, area: Path) -> str:
        commit = self.resolve(revision)
        if check_reference(branch) in self.references():
            raise ConflictError(f"expected a new branch for {self.repo_id}, found {branch} there already")
        self._write_reference(branch, commit, area)
        return commit

    def remove_reference(self, name: str, area: Path) -> None:
        """Forget a tag or a branch; a revision that nothing else reaches is removed by the next push."""
        if name not in self.references():
            self.resolve(name)  # says what there is
            raise ConflictError(f"expected a tag of {self.repo_id}, found the revision {name}; revisions stay")
        if name == DEFAULT_BRANCH:
            raise ConflictError(f"expected a tag of {self.repo_id}, found its branch {DEFAULT_BRANCH}, which stays")
        (self.folder / "refs" / name).unlink()
        records = self._tag_records()
        if records.pop(name, None) is not None:
            write_file(self.folder / "tags.json", json.dumps(records, indent=1, ensure_ascii=False), area)

    # ---- what killed writers left

    def clean(self) -> None:
        """Remove records, snapshots and blobs that no reference reaches. The lock must be held."""
        reached: dict[str, Revision] = {}
        for commit in self.references().values():
            current: str | None = commit
            while current and current not in reached and self._has_record(current):
                reached[current] = Revision.read(self.folder / "commits" / f"{current}.json")
                current = reached[current].parent
        for record in (self.folder / "commits").glob("*.json"):
            if record.stem not in reached:
                shutil.rmtree(self.folder / "snapshots" / record.stem, ignore_errors=True)
                record.unlink()  # last, so that a kill in between is repeated
        used = {file.sha256 for revision in reached.values() for file in revision.files.values()}
        # A client of the Hub may have filled the folder too: what its snapshots link to is not ours to remove.
        for snapshot in (self.folder / "snapshots").iterdir():
            if snapshot.name not in reached:
                used.update(Path(os.readlink(link)).name for link in snapshot.rglob("*") if link.is_symlink())
        for blob in (self.folder / "blobs").iterdir():
            if blob.name not in used and not blob.name.endswith(".incomplete"):
                blob.unlink()


def _link(blob: Path, relative: str, link: Path) -> None:
    """A relative link, as clients make; where the system has none, a second name for the file, or a copy."""
    from huggingface_hub.constants import HF_HUB_DISABLE_SYMLINKS

    with contextlib.suppress(OSError):
        if not HF_HUB_DISABLE_SYMLINKS:
            os.symlink(relative, link)
            return
    try:
        os.link(blob, link)
    except OSError:
        shutil.copyfile(blob, link)


def _check_no_file_is_a_folder(paths: Mapping[str, object]) -> None:
    for path in paths:
        parts = path.split("/")
        for length in range(1, len(parts)):
            if (folder := "/".join(parts[:length])) in paths:
                raise ValueError(f"expected {folder} to be a file or a folder, found both {folder} and {path}")


__all__ = ["PREFIX", "Repository", "Staged"]
