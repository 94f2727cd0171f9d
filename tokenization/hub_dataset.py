"""A dataset of the Hub as a stream of texts: found by its name, held to one commit, read without being stored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .formats import format_of
from .rows import Column, check_columns, check_text

_NAME = re.compile(r"(?P<name>\w[\w.-]*/\w[\w.-]*)(:(?P<config>[\w.-]+))?(@(?P<revision>[\w./-]+))?")


@dataclass(frozen=True)
class HubDataset:
    """The split `train` of a dataset. Every pass reads the same commit, whatever is pushed in the meantime."""

    name: str
    # Which of its subsets; None where it has one.
    config: str | None = None
    # The commit; a folder in place of a name has none.
    revision: str | None = None

    def __str__(self) -> str:
        config, revision = (f":{self.config}" if self.config else ""), (f"@{self.revision}" if self.revision else "")
        return f"{self.name}{config}{revision}"

    def read_texts(self, text_column: str) -> Iterator[str]:
        """The texts of its rows, in their order, a few at a time over the network."""
        import datasets

        try:
            rows = datasets.load_dataset(self.name, self.config, split="train", streaming=True, revision=self.revision)
        except ValueError as error:  # the library's answer to an unknown split or subset; it lists those that there are
            reason = " ".join(str(error).split())
            raise ValueError(
                f"expected a split 'train' in the dataset {self}, found: {reason:.300}; a subset is chosen with "
                f"{self.name}:SUBSET"
            ) from error
        columns = [Column(text_column)]
        for number, row in enumerate(rows, start=1):
            check_columns(columns, str(self), list(row))
            check_text([row[text_column]], columns, str(self), number)
            yield row[text_column]


def looks_like_name(path: str) -> bool:
    """Whether an argument can be a name on the Hub, `OWNER/NAME[:SUBSET][@REVISION]`; a path can look so too."""
    return _NAME.fullmatch(path) is not None and format_of(path) is None


def find_hub_dataset(path: str) -> HubDataset:
    """The dataset of that name, at the commit where it is now."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import OfflineModeIsEnabled, RepositoryNotFoundError, RevisionNotFoundError

    match = _NAME.fullmatch(path)
    if match is None:
        raise ValueError(f"expected OWNER/NAME[:SUBSET][@REVISION], found {path}")
    try:
        commit = HfApi().dataset_info(match["name"], revision=match["revision"], timeout=30).sha
    except OfflineModeIsEnabled:
        reason = "the Hub is not asked for a dataset so named, as HF_HUB_OFFLINE is set; correct the path, or unset it"
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        reason = f"the Hub shows no such dataset (it answers {error.response.status_code}); correct the path or name"
    except Exception as error:  # the HTTP library, and with it its errors, changes between versions of the client
        reason = f"the Hub cannot be asked for a dataset so named ({type(error).__name__}); correct the path"
    else:
        if commit is not None:
            return HubDataset(match["name"], match["config"], commit)
        reason = "the Hub tells no commit of the dataset so named; download it, and pass its files"
    raise FileNotFoundError(f"expected files, a folder, a glob or a dataset, found {path}: no such file, and {reason}")


__all__ = ["HubDataset", "find_hub_dataset", "looks_like_name"]
