"""The hub: repositories by name in a directory, which unmodified clients of the Hub read as their cache."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .cards import CARD, is_replaceable, make_card
from .contents import read_contents
from .errors import ConflictError, RepositoryNotFoundError
from .names import DEFAULT_BRANCH, check_reference
from .places import default_hub
from .repository import PREFIX, Repository, Staged
from .revisions import Revision, StoredFile, hash_file, hash_stream
from .staging import explained, staging_area, sweep


@dataclass(frozen=True)
class Pushed:
    """A new revision, and the paths of the folder that are not in it."""

    revision: Revision
    left_out: list[str]


class LocalHub:
    """A hub in `path`, by default `$GREFFE_HUB` or a folder in the user's data directory.

    It is made by the first push. Every method that changes it is atomic: readers see what was before or what is after.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self.path = Path(os.path.abspath(default_hub() if path is None else Path(path).expanduser()))

    def __repr__(self) -> str:
        return f"LocalHub({str(self.path)!r})"

    # ---- reading

    def repository(self, repo_id: str) -> Repository:
        return Repository(self.path, repo_id)

    def list(self) -> list[str]:
        """The names of all repositories."""
        if not self.path.is_dir():
            return []
        names = [folder.name.removeprefix(PREFIX) for folder in sorted(self.path.glob(f"{PREFIX}*--*"))]
        found = []
        for name in names:
            try:
                repository = self.repository(name.replace("--", "/"))
            except ValueError:  # a folder that is no repository of ours
                continue
            if repository.exists():
                found.append(repository.repo_id)
        return found

    def log(self, repo_id: str, revision: str = DEFAULT_BRANCH) -> Sequence[Revision]:
        """A revision and those before it, newest first."""
        return [*self.repository(repo_id).history(revision)]

    def show(self, repo_id: str, revision: str = DEFAULT_BRANCH) -> Revision:
        """One revision: its files, message, date and parent."""
        return self.repository(repo_id).revision(revision)

    def snapshot(self, repo_id: str, revision: str = DEFAULT_BRANCH) -> Path:
        """The folder of a revision, to read from; `pull` makes one to change."""
        return self.repository(repo_id).snapshot(revision)

    def pull(self, repo_id: str, folder: str | os.PathLike[str], revision: str = DEFAULT_BRANCH) -> Revision:
        """Copy a revision into a new or empty folder, checking every hash on the way."""
        from greffe.tokenization.output_folder import write_folder

        repository = self.repository(repo_id)
        found = repository.revision(revision)
        if os.path.exists(folder) and not (os.path.isdir(folder) and not os.listdir(folder)):
            raise FileExistsError(f"expected a new or empty folder, found {folder} there already; choose another")

        def copy(target: Path) -> None:
            for path, file in found.files.items():
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                with open(repository.blob(file), "rb") as source, open(target / path, "wb") as copied:
                    if hash_stream(source, file.size, copied).sha256 != file.sha256:
                        raise ValueError(
                            f"expected {path} of {repo_id}@{found.id[:12]} as it was pushed, found it damaged; "
                            f"`greffe hub verify {repo_id}` names what is"
                        )

        write_folder(folder, copy)
        return found

    def verify(self, repo_id: str | None = None) -> Sequence[str]:
        """What is damaged, a line each, after recomputing every hash of one repository or of all."""
        from .verification import find_damage

        names = self.list() if repo_id is None else [repo_id]
        return [line for name in names for line in find_damage(self.repository(name))]

    # ---- writing

    def push(
        self,
        folder: str | os.PathLike[str],
        repo_id: str,
        *,
        tag: str | None = None,
        message: str | None = None,
        allow_pickle: bool = False,
    ) -> Pushed:
        """Make the files of a folder the newest revision of a repository, which is created if need be."""
        repository = self.repository(repo_id)
        if tag is not None:
            check_reference(tag)
        contents = read_contents(folder, allow_pickle)  # whatever can be refused is refused before anything is written
        with self.writing() as area, repository.locked():

            def build(parent: Revision | None) -> Mapping[str, Staged | StoredFile]:
                staged = {path: self._stage(repository, file, area) for path, file in contents.files.items()}
                return self.with_card(repository, staged, area)

            revision = repository.publish(area, message or f"Push {Path(folder).resolve().name}", build, tag=tag)
        return Pushed(revision, contents.left_out)

    @contextmanager
    def writing(self) -> Iterator[Path]:
        """A staging area, with what earlier writers left removed, and storage errors in plain words."""
        with explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            sweep(self.path)
            with staging_area(self.path) as area:
                yield area

    def _stage(self, repository: Repository, file: Path, area: Path) -> Staged | StoredFile:
        """A content for a revision: copied, or found among the blobs, in which case it is not written again."""
        size = file.stat().st_size
        if any(blob.stat().st_size == size for blob in (repository.folder / "blobs").iterdir() if blob.is_file()):
            stored = hash_file(file)
            if repository.blob(stored).is_file():
                return stored
        return stage_copy(file, area)

    def with_card(
        self, repository: Repository, contents: Mapping[str, Staged | StoredFile], area: Path
    ) -> dict[str, Staged | StoredFile]:
        """The same with a model card, unless somebody wrote one."""
        places = {
            path: content.source if isinstance(content, Staged) else repository.blob(content)
            for path, content in contents.items()
        }
        if "config.json" not in places or (CARD in places and not is_replaceable(places[CARD])):
            return dict(contents)
        card = area / f"{uuid.uuid4().hex}.md"
        card.write_text(make_card(repository.repo_id, places), encoding="utf-8", newline="")
        return {**contents, CARD: stage_copy(card, area)}

    def create(self, repo_id: str) -> Revision:
        """An empty repository, as `create_repo` of the Hub's client makes before it uploads."""
        repository = self.repository(repo_id)
        with self.writing() as area, repository.locked():
            if repository.exists():
                raise ConflictError(f"expected a new repository, found {repo_id} in {self.path} already")
            return repository.publish(area, "Create the repository", lambda parent: {})

    def tag(self, repo_id: str, tag: str, revision: str = DEFAULT_BRANCH, message: str = "") -> str:
        """Name a revision; the name is then a `revision=` for every client. Gives the revision's full name."""
        repository = self.repository(repo_id)
        repository.check_exists()
        with self.writing() as area, repository.locked():
            return repository.add_tag(tag, revision, area, message)

    def branch(self, repo_id: str, branch: str, revision: str = DEFAULT_BRANCH) -> str:
        repository = self.repository(repo_id)
        repository.check_exists()
        with self.writing() as area, repository.locked():
            return repository.add_branch(branch, revision, area)

    def delete_reference(self, repo_id: str, name: str) -> None:
        """Forget a tag or a branch. The revision of a tag stays as long as a branch reaches it."""
        repository = self.repository(repo_id)
        repository.check_exists()
        with self.writing() as area, repository.locked():
            repository.remove_reference(name, area)

    def delete(self, repo_id: str) -> None:
        """Remove a repository with all of its revisions: at once for readers, then from the disk."""
        repository = self.repository(repo_id)
        repository.check_exists()
        with self.writing() as area, repository.locked():
            if not repository.folder.is_dir():
                raise RepositoryNotFoundError(f"expected the repository {repo_id}, found it deleted by another")
            os.rename(repository.folder, area / "deleted")
            shutil.rmtree(area / "deleted")


def stage_copy(file: Path, area: Path) -> Staged:
    """Copy a file into a staging area, hashing it on the way, until the disk has it."""
    target = area / uuid.uuid4().hex
    with open(file, "rb") as source, open(target, "wb") as copy:
        stored = hash_stream(source, os.fstat(source.fileno()).st_size, copy)
        copy.flush()
        os.fsync(copy.fileno())
    return Staged(stored, target)


__all__ = ["LocalHub", "Pushed", "stage_copy"]
