"""The hub in the words of the Hub's HTTP API: what each request is answered with."""

from __future__ import annotations

import hashlib
from typing import Any

from .cards import CARD, read_metadata
from .repository import Repository
from .revisions import Revision, StoredFile


def describe_model(repository: Repository, revision: Revision, with_blobs: bool = False) -> dict[str, Any]:
    """What `model_info` and `list_models` give."""
    card = revision.files.get(CARD)
    metadata = read_metadata(repository.blob(card)) if card else {}
    author, _ = repository.repo_id.split("/")
    tags = [metadata.get("library_name"), metadata.get("pipeline_tag"), *_texts(metadata.get("tags"))]
    tags += [f"dataset:{name}" for name in _texts(metadata.get("datasets"))]
    tags += [f"base_model:{name}" for name in _texts(metadata.get("base_model"))]
    return {
        "id": repository.repo_id,
        "modelId": repository.repo_id,
        "author": author,
        "sha": revision.id,
        "lastModified": _date(revision),
        "createdAt": _date(revision),
        "private": False,
        "gated": False,
        "disabled": False,
        "downloads": 0,
        "likes": 0,
        "library_name": metadata.get("library_name"),
        "pipeline_tag": metadata.get("pipeline_tag"),
        "tags": [*dict.fromkeys([tag for tag in tags if isinstance(tag, str)] + _texts(metadata.get("language")))],
        "cardData": metadata,
        "siblings": [
            {"rfilename": path, **(_sibling(file) if with_blobs else {})} for path, file in revision.files.items()
        ],
        "usedStorage": revision.size,
    }


def _sibling(file: StoredFile) -> dict[str, Any]:
    lfs = {"sha256": file.sha256, "size": file.size, "pointerSize": 134}
    return {"size": file.size, "blobId": file.oid, **({"lfs": lfs} if file.is_large else {})}


def describe_tree(revision: Revision, folder: str, recursive: bool) -> list[dict[str, Any]]:
    """The files and folders below a folder ("" for all); an empty list if there is no such folder."""
    prefix = f"{folder}/" if folder else ""
    folders: set[str] = set()
    files = []
    for path, file in revision.files.items():
        if not path.startswith(prefix):
            continue
        parts = path[len(prefix) :].split("/")
        above = [prefix + "/".join(parts[:length]) for length in range(1, len(parts))]
        folders.update(above if recursive else above[:1])
        if recursive or len(parts) == 1:
            files.append(describe_file(path, file))
    return [describe_folder(path, revision) for path in sorted(folders)] + files


def describe_file(path: str, file: StoredFile) -> dict[str, Any]:
    lfs = {"oid": file.sha256, "size": file.size, "pointerSize": 134}
    return {"type": "file", "path": path, "size": file.size, "oid": file.oid, **({"lfs": lfs} if file.is_large else {})}


def describe_folder(path: str, revision: Revision) -> dict[str, Any]:
    oid = hashlib.sha256(f"{revision.id}/{path}".encode()).hexdigest()[:40]
    return {"type": "directory", "path": path, "size": 0, "oid": oid}


def describe_references(repository: Repository) -> dict[str, Any]:
    return {
        "branches": [
            {"name": name, "ref": f"refs/heads/{name}", "targetCommit": commit}
            for name, commit in repository.branches().items()
        ],
        "tags": [
            {"name": name, "ref": f"refs/tags/{name}", "targetCommit": commit}
            for name, commit in repository.tags().items()
        ],
        "converts": [],
        "pullRequests": [],
    }


def describe_commit(revision: Revision) -> dict[str, Any]:
    return {
        "id": revision.id,
        "title": revision.title,
        "message": revision.message.removeprefix(revision.title).lstrip("\n"),
        "date": _date(revision),
        "authors": [],
    }


def _date(revision: Revision) -> str:
    return f"{revision.date[:23]}Z"  # milliseconds, as clients parse


def _texts(value: object) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [item for item in values if isinstance(item, str)]


__all__ = [
    "describe_commit",
    "describe_file",
    "describe_folder",
    "describe_model",
    "describe_references",
    "describe_tree",
]
