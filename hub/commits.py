"""A commit of single operations on top of a branch, as the server receives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from .commit_payload import AddedFile, AddedUpload, CommitPayload, Operation
from .contents import refuse_pickles
from .errors import ConflictError, EntryNotFoundError, RevisionNotFoundError
from .names import DEFAULT_BRANCH
from .repository import Repository, Staged
from .revisions import Revision, StoredFile
from .staging import uploads_folder
from .store import LocalHub

MOST_TEXT = 10_000  # characters of a message


def commit(
    hub: LocalHub, repository: Repository, payload: CommitPayload, area: Path, branch: str, allow_pickle: bool
) -> Revision:
    """Apply operations to the newest revision of a branch; all of them or none."""
    with repository.locked():
        repository.check_exists()
        if branch not in repository.references() and branch != DEFAULT_BRANCH:
            repository.resolve(branch)  # says what there is
            raise RevisionNotFoundError(f"expected a branch of {repository.repo_id}, found the revision {branch}")

        def build(parent: Revision | None) -> Mapping[str, Staged | StoredFile]:
            if payload.parent is not None and (parent is None or not parent.id.startswith(payload.parent)):
                raise ConflictError(
                    f"expected {payload.parent} to be the newest revision of {repository.repo_id}, found "
                    f"{parent.id if parent else 'none'}; somebody was faster"
                )
            files = _apply(repository, parent, payload.operations)
            if not allow_pickle:
                added = {operation.path for operation in payload.operations} & files.keys()
                refuse_pickles({path: _place(repository, files[path]) for path in added})
            return hub.with_card(repository, files, area)

        return repository.publish(area, payload.message[:MOST_TEXT] or "Commit", build, branch=branch)


def _apply(
    repository: Repository, parent: Revision | None, operations: Sequence[Operation]
) -> dict[str, Staged | StoredFile]:
    files: dict[str, Staged | StoredFile] = dict(parent.files) if parent else {}
    for operation in operations:
        if isinstance(operation, AddedFile):
            files[operation.path] = operation.content
        elif isinstance(operation, AddedUpload):
            files[operation.path] = _find_upload(repository, operation)
        else:
            prefix = f"{operation.path}/"
            gone = [path for path in files if path == operation.path or path.startswith(prefix)]
            if not gone:  # the words that clients look for
                raise EntryNotFoundError(f"A file with this name doesn't exist: {operation.path}")
            for path in gone:
                del files[path]
    return files


def _find_upload(repository: Repository, operation: AddedUpload) -> Staged | StoredFile:
    for file in uploads_folder(repository.hub, repository.folder.name).glob(f"{operation.sha256}.*"):
        return Staged(StoredFile(file.stat().st_size, operation.sha256, file.suffix[1:]), file)
    if stored := find_content(repository, operation.sha256):
        return stored
    raise ValueError(f"expected the content of {operation.path} to be uploaded before the commit, found none")


def find_content(repository: Repository, sha256: str) -> StoredFile | None:
    """What the repository knows of a content, from any of its revisions."""
    if not (repository.folder / "blobs" / sha256).is_file():
        return None
    for record in (repository.folder / "commits").glob("*.json"):
        for file in Revision.read(record).files.values():
            if file.sha256 == sha256:
                return file
    return None


def _place(repository: Repository, content: Staged | StoredFile) -> Path:
    return content.source if isinstance(content, Staged) else repository.blob(content)


__all__ = ["commit", "find_content"]
