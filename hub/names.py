"""What may be a name in the hub: of a repository, of a revision, of a file.

Names come from the command line, from folders and from the network, and become paths. They are checked here, once, by
one rule for every platform: a hub that was filled on Linux is often read on Windows or macOS.
"""

from __future__ import annotations

import re

DEFAULT_BRANCH = "main"
LONGEST_PART = 255  # bytes; the limit of nearly every file system
LONGEST_PATH = 1024  # characters

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REFERENCE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,95}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
# Windows opens devices under these names, whatever their extension.
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{digit}" for port in ("com", "lpt") for digit in "0123456789¹²³")}
# Folders that belong to tools: what is written there changes how the folder around it behaves.
_TOOL_FOLDERS = {".git", ".cache"}


def check_repo_id(repo_id: str) -> str:
    """`organisation/name`, by the Hub's rules and so that it is a folder on every platform."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id

    expected = f"expected a name of the form organisation/name, found {_show(repo_id)}"
    try:
        validate_repo_id(repo_id)
    except HFValidationError:
        raise ValueError(
            f"{expected}; use letters, digits, '-', '_' and '.', at most 96 of them on each side of the '/', with no "
            "'--', '..' or '.git' at the end"
        ) from None
    if repo_id.count("/") != 1:
        raise ValueError(f"{expected}; put the name of a team or a person before it, as in team/{repo_id[:80]}")
    for part in repo_id.split("/"):
        if reason := _why_not_portable(part):
            raise ValueError(f"{expected}; {part!r} {reason}")
    return repo_id


def check_reference(name: str) -> str:
    """The name of a tag or a branch: one path part that cannot be taken for a commit."""
    if not isinstance(name, str) or not _REFERENCE.fullmatch(name) or ".." in name or name.endswith(".lock"):
        raise ValueError(
            f"expected a tag such as v1, found {_show(name)}; use letters, digits, '-', '_' and '.', at most 96 of them"
        )
    if _COMMIT.fullmatch(name):
        raise ValueError(f"expected a tag such as v1, found {name!r}, which would be taken for a commit")
    if reason := _why_not_portable(name):
        raise ValueError(f"expected a tag such as v1, found {name!r}, which {reason}")
    return name


def check_file_path(path: str) -> str:
    """The path of a file inside a repository: relative, with forward slashes, and one that every platform can write."""
    expected = f"expected the path of a file inside the repository, found {_show(path)}"
    if not isinstance(path, str) or not path or len(path) > LONGEST_PATH:
        raise ValueError(f"{expected}; it must have 1 to {LONGEST_PATH} characters")
    if path.startswith("/") or "\\" in path or ":" in path:
        raise ValueError(f"{expected}; it must be relative, with '/' between folders and no '\\' or ':'")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise ValueError(f"{expected}; it must not contain '//', '.' or '..'")
        if part.lower() in _TOOL_FOLDERS:
            raise ValueError(f"{expected}; {part}/ belongs to other tools")
        if reason := _why_not_portable(part):
            raise ValueError(f"{expected}; {part[:80]!r} {reason}")
    return path


def is_commit(name: str) -> bool:
    return _COMMIT.fullmatch(name) is not None


def split_name(name: str) -> tuple[str, str]:
    """`organisation/name[@revision]` → the repository and the revision, `main` if none is given."""
    repo_id, separator, revision = name.partition("@")
    check_repo_id(repo_id)
    if not separator:
        return repo_id, DEFAULT_BRANCH
    return repo_id, check_revision(revision)


def check_revision(revision: str) -> str:
    """A tag, a branch, or a commit's 40 hexadecimal digits; short commits are looked up by the store."""
    if is_commit(revision):
        return revision
    return check_reference(revision)


def _why_not_portable(part: str) -> str | None:
    try:
        size = len(part.encode())
    except UnicodeEncodeError:
        return "is not Unicode text"
    if size > LONGEST_PART:
        return f"is longer than {LONGEST_PART} bytes"
    if _CONTROL.search(part):
        return "contains a control character"
    if part[-1] in ". ":
        return "ends with a dot or a space, which Windows drops"
    if any(character in '<>"|?*' for character in part):
        return 'contains one of < > " | ? *, which Windows refuses'
    if part.split(".")[0].rstrip(" ").lower() in _DEVICES:
        return "is the name of a device on Windows"
    return None


def _show(name: object) -> str:
    text = ascii(name) if isinstance(name, str) else f"a {type(name).__name__}"
    return text if len(text) <= 120 else f"{text[:100]}… ({len(text)} characters)"


__all__ = [
    "DEFAULT_BRANCH",
    "check_file_path",
    "check_reference",
    "check_repo_id",
    "check_revision",
    "is_commit",
    "split_name",
]
