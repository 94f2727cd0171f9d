"""What the hub does not have, by kind: the server tells its clients which."""

from __future__ import annotations


class HubError(Exception):
    """Something about the hub that the user can put right; `str(error)` says how."""


class RepositoryNotFoundError(HubError, FileNotFoundError):
    """No repository of this name."""


class RevisionNotFoundError(HubError, FileNotFoundError):
    """The repository has no such tag, branch or commit."""


class EntryNotFoundError(HubError, FileNotFoundError):
    """The revision has no such file or folder."""


class ConflictError(HubError, FileExistsError):
    """The name is taken, or somebody was faster."""


class PickleRefusedError(HubError, ValueError):
    """A file that runs code when it is loaded."""


class StorageError(HubError, OSError):
    """The disk is full, or the folder cannot be written."""


__all__ = [
    "ConflictError",
    "EntryNotFoundError",
    "HubError",
    "PickleRefusedError",
    "RepositoryNotFoundError",
    "RevisionNotFoundError",
    "StorageError",
]
