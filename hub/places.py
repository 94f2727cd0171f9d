"""Where the hub is, and where a model is that a command was given: a folder, or a name in the hub."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .names import split_name


def default_hub() -> Path:
    """`$GREFFE_HUB`, else a folder where the platform keeps the data of a user."""
    if place := os.environ.get("GREFFE_HUB"):
        return Path(place).expanduser()
    if sys.platform == "win32":
        data = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        data = Path.home() / "Library" / "Application Support"
    else:
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "greffe" / "hub"


def resolve_model(model: str | os.PathLike[str], hub: str | os.PathLike[str] | None = None) -> Path:
    """The folder of a model: `model` itself if it is a folder, else the snapshot of `organisation/name[@revision]`.

    A folder comes first, as in `from_pretrained`. Anything that cannot be a name is returned as it is, so that the
    caller's own error about folders is what the user reads.
    """
    if os.path.isdir(model):
        return Path(model)
    try:
        repo_id, revision = split_name(os.fspath(model))
    except ValueError:
        return Path(model)
    from .errors import RepositoryNotFoundError
    from .store import LocalHub

    store = LocalHub(hub)
    try:
        return store.snapshot(repo_id, revision)
    except RepositoryNotFoundError:
        raise RepositoryNotFoundError(
            f"expected a model in the folder {model}, or of this name in the hub {store.path}, found neither; "
            "`greffe hub list` shows what the hub has"
        ) from None


__all__ = ["default_hub", "resolve_model"]
