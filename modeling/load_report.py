"""What `from_pretrained` did, in plain words: what came from the checkpoint, what is new, what was left behind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn


class MismatchError(RuntimeError):
    """Weights whose shapes differ from the model's; `shapes` says which."""

    def __init__(self, model: nn.Module, source: str, mismatched_keys: Iterable[tuple[str, Any, Any]]):
        self.shapes = _shapes(mismatched_keys)
        super().__init__(
            f"{type(model).__name__} does not fit the checkpoint in {source}: {self.shapes}. Load it with the sizes and"
            " the num_labels that it was saved with, or pass ignore_mismatched_sizes=True to draw these weights anew."
        )


def describe_loading(model: nn.Module, source: str, loading_info: Any) -> str | None:
    """A few sentences on a load that changed something; None when every weight was simply read."""
    mismatched = loading_info.mismatched_keys
    new = loading_info.missing_keys | {name for name, *_ in mismatched}
    left = loading_info.unexpected_keys
    if not new and not left:
        return None
    sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
    count_new = sum(sizes.get(name, 0) for name in new)
    sentences = [f"{type(model).__name__} from {source}: {sum(sizes.values()) - count_new:,} parameters were taken."]
    if new:
        sentences.append(
            f"New, drawn at random and to be trained before use: {_summary(new)} ({count_new:,} parameters)."
        )
    if mismatched:
        sentences.append(f"Reinit due to size mismatch: {_shapes(mismatched)}.")
    if left:
        sentences.append(f"Left behind, as this model has no place for it: {_summary(left)}.")
    return " ".join(sentences)


def _shapes(mismatched_keys: Iterable[tuple[str, Any, Any]]) -> str:
    return "; ".join(
        f"expected {name} of shape {tuple(in_model)}, found {tuple(in_checkpoint)}"
        for name, in_checkpoint, in_model in sorted(mismatched_keys, key=str)
    )


def _summary(names: Iterable[str]) -> str:
    """Whole modules by their first name (`lm_head`), parts of the trunk one by one."""
    return ", ".join(sorted({name if name.startswith("model.") else name.split(".")[0] for name in names}))


__all__ = ["MismatchError", "describe_loading"]
