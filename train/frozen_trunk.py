"""A trunk that does not learn says the same of a text at every epoch: it is asked once, and the head learns from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from greffe.modeling import GreffeForSequenceClassification
from greffe.modeling.loss import classification_loss
from torch import Tensor, nn
from tqdm.auto import tqdm
from transformers.modeling_outputs import SequenceClassifierOutput

POOLED = "pooled"  # the field of a row with the vector that the head reads


class HeadAlone(nn.Module):
    """The head of a classifier, and the very same parameters, on texts that its trunk has read already."""

    def __init__(self, classifier: GreffeForSequenceClassification):
        super().__init__()
        self.config = classifier.config
        self.dropout, self.score = classifier.dropout, classifier.score

    def forward(
        self, pooled: Tensor, labels: Tensor | None = None, num_items_in_batch: Any = None, **kwargs: Any
    ) -> SequenceClassifierOutput:
        logits = self.score(self.dropout(pooled))
        loss: Any = None
        if labels is not None:
            loss = classification_loss(logits, labels, str(self.config.problem_type), num_items_in_batch)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def says_the_same(classifier: GreffeForSequenceClassification) -> bool:
    """Whether the trunk is frozen and nothing in it is drawn at random."""
    config = classifier.config
    frozen = not any(parameter.requires_grad for parameter in classifier.base_model.parameters())
    return frozen and not config.hidden_dropout and not config.attention_dropout


@torch.inference_mode()
def read_texts(
    classifier: GreffeForSequenceClassification,
    rows: Sequence[dict[str, Any]],
    collate: Callable[[list[dict[str, Any]]], dict[str, Tensor]],
    batch_size: int,
    show_progress: bool,
) -> None:
    """Put what the head will read of each text into its row, where it is not yet; short texts together."""
    waiting = sorted((row for row in rows if POOLED not in row), key=lambda row: row["length"])
    batches = [waiting[start : start + batch_size] for start in range(0, len(waiting), batch_size)]
    classifier.eval()
    for batch in tqdm(batches, desc="the frozen trunk reads", unit="batch", disable=not show_progress, leave=False):
        inputs = {name: value.to(classifier.device) for name, value in collate(batch).items() if name != "labels"}
        _, pooled = classifier.read(**inputs, use_cache=False)
        for row, vector in zip(batch, pooled.cpu(), strict=True):
            row[POOLED] = vector.clone()  # a part of the batch's tensor would keep the whole


__all__ = ["POOLED", "HeadAlone", "read_texts", "says_the_same"]
