"""Which parts of a text carried a decision, and whether that is true.

A score is in the unit of the log-odds of the explained label, log p / (1 - p): positive where the part speaks for the
label, negative where it speaks against. For a regression it is in the unit of the number.

- `integrated_gradients`: the gradient of the log-odds with respect to the embeddings, averaged on the way from a text
  of spaces to the text, times that way (Sundararajan et al., 2017). The scores sum to the difference of the two. (The
  way from padding, of which the model has learned nothing, was hardly more faithful than chance.)
- `leave_one_out`: how much the log-odds fall when the token is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from greffe.train.truncation import truncate_ids
from torch import Tensor

from .classifier import Classifier, Prediction

Method = Literal["integrated_gradients", "leave_one_out"]
DEFAULT_METHOD: Method = "leave_one_out"
STEPS = 32
_BATCH = 32
# Points of the way whose gradients are in memory at once: they take far more of it than predictions.
_GRADIENTS = 8


@dataclass(frozen=True)
class Part:
    """A run of the text's characters; together, the parts are the text."""

    text: str
    # None for what the model did not see: what was cut off, and characters that no token stands for.
    score: float | None


@dataclass(frozen=True)
class Explanation:
    text: str
    # The explained label; for a regression the name of the number.
    label: str
    prediction: Prediction
    parts: list[Part]
    method: str

    def top(self, number: int) -> list[Part]:
        """The parts that weigh most, for or against."""
        scored = [part for part in self.parts if part.score]
        return sorted(scored, key=lambda part: -abs(part.score or 0))[:number]


def explain(
    classifier: Classifier, text: str, *, label: str | None = None, method: Method = DEFAULT_METHOD, steps: int = STEPS
) -> Explanation:
    """Score every token for a label, the predicted one unless given, and put the pieces together to readable text."""
    ids, spans = _encode(classifier, text)
    prediction = classifier.decide(classifier.logits([ids]))[0]
    target = _find_label(classifier, prediction, label)
    scores = score_tokens(classifier, ids, target, method, steps)
    parts = _merge(text, spans, scores)
    return Explanation(text, classifier.labels.names[target], prediction, parts, method)


def score_tokens(
    classifier: Classifier, ids: Sequence[int], target: int, method: Method = DEFAULT_METHOD, steps: int = STEPS
) -> list[float]:
    """A score for each id. The beginning token, which every text has, gets none of it."""
    if method not in get_args(Method):
        raise ValueError(f"expected a method among {list(get_args(Method))}, found {method!r}")
    if method == "leave_one_out":
        return _leave_one_out(classifier, list(ids), target)
    return integrate_gradients(classifier, ids, target, steps)[0]


def log_odds(classifier: Classifier, logits: Tensor, target: int) -> Tensor:
    """How strongly the label is held, (N, C) -> (N): a probability without its flat ends."""
    if classifier.labels.task != "single_label" or logits.shape[1] == 1:
        return logits[:, target]
    others = torch.arange(logits.shape[1], device=logits.device) != target
    return logits[:, target] - logits[:, others].logsumexp(-1)


def integrate_gradients(
    classifier: Classifier, ids: Sequence[int], target: int, steps: int = STEPS
) -> tuple[list[float], float]:
    """The scores, and the difference of log-odds that they should sum to; more steps bring them closer."""
    if steps < 1:
        raise ValueError(f"expected at least 1 step, found {steps}")
    model = classifier.model
    first = _start(classifier, ids)
    spaces = [*ids[:first], *[_neutral_id(classifier)] * (len(ids) - first)]
    both = _inputs(model, torch.tensor([list(ids), spaces], device=model.device))
    text, baseline = both.split(1)  # (1, T, D) each
    # Midpoints of equal steps: as good as a finer grid of their ends.
    shares = (torch.arange(steps, device=model.device) + 0.5) / steps
    gradient = torch.zeros_like(text)
    for share in shares.split(_GRADIENTS):
        points = (baseline + share[:, None, None] * (text - baseline)).requires_grad_()  # (S, T, D)
        values = log_odds(classifier, _logits(model, points), target)
        gradient += torch.autograd.grad(values.sum(), points)[0].sum(0, keepdim=True)
    scores = (gradient / steps * (text - baseline)).sum(-1)[0]  # (T)
    # The beginning token is at both ends, but the n-grams it is in are not: what they change, the others changed.
    scores[first:] += scores[:first].sum() / max(len(ids) - first, 1)
    scores[:first] = 0
    with torch.no_grad():
        ends = log_odds(classifier, _logits(model, both), target)
    return scores.tolist(), float(ends[0] - ends[1])


@torch.no_grad()
def _inputs(model: Any, input_ids: Tensor) -> Tensor:
    """What a text is on the way, (B, T) -> (B, T, D): its embeddings, of which the trunk makes logits, and beside them,
    where there is a path of n-grams, what each token has in the logits of the path, which has no embeddings."""
    embeds = model.get_input_embeddings()(input_ids)
    return embeds if model.ngrams is None else torch.cat([embeds, model.ngrams.contributions(input_ids)], -1)


def _logits(model: Any, inputs: Tensor) -> Tensor:
    """The classifier's logits of `_inputs`, (B, C)."""
    width = model.config.hidden_size
    _, pooled = model.read(inputs_embeds=inputs[..., :width], use_cache=False)
    logits = model.score(pooled)
    return logits if model.ngrams is None else logits + inputs[..., width:].sum(1)


def _leave_one_out(classifier: Classifier, ids: list[int], target: int) -> list[float]:
    first = _start(classifier, ids)
    # A text must not become empty: a token that is alone, without a beginning token, is left where it is.
    shorter = [ids[:index] + ids[index + 1 :] or ids for index in range(first, len(ids))]
    values = log_odds(classifier, classifier.logits([ids, *shorter], _BATCH), target)
    return [0.0] * first + (values[0] - values[1:]).tolist()


def _neutral_id(classifier: Classifier) -> int:
    """A token that is in every text and says nothing: a space, or a full stop where spaces are no tokens."""
    for text in (" ", "."):
        if found := classifier.tokenizer(text, add_special_tokens=False)["input_ids"]:
            return int(found[0])
    return int(classifier.tokenizer.pad_token_id)


def _start(classifier: Classifier, ids: Sequence[int]) -> int:
    """Where the text starts: after the beginning token, where there is one."""
    return int(len(ids) > 0 and ids[0] == classifier.tokenizer.bos_token_id)


def _find_label(classifier: Classifier, prediction: Prediction, label: str | None) -> int:
    names = classifier.labels.names
    if label is None:
        best = prediction.top(1)
        return names.index(best[0][0]) if best else 0
    if label not in names:
        raise ValueError(f"expected a label among {list(names)}, found {label!r}")
    return names.index(label)


def _encode(classifier: Classifier, text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The ids that the classifier sees, and the characters of the text that each stands for."""
    classifier.encode([text])  # which refuses what is not Unicode
    encoding = classifier.tokenizer(text, truncation=False, verbose=False, return_offsets_mapping=True)
    ids, spans = encoding["input_ids"], encoding["offset_mapping"]
    first = _start(classifier, ids)
    # Truncating the positions in place of the ids tells which are kept; position 0 is the beginning token.
    kept = truncate_ids(range(len(ids)), classifier.max_length, classifier.truncation, 0 if first else None)
    return [ids[index] for index in kept], [spans[index] for index in kept]


def _merge(text: str, spans: Sequence[tuple[int, int]], scores: Sequence[float]) -> list[Part]:
    """The text in parts. Pieces that share a character, such as the two halves of its bytes, are one part."""
    groups: list[tuple[int, int, float]] = []
    for (start, end), score in zip(spans, scores, strict=True):
        if start == end:  # a control token
            continue
        if groups and start < groups[-1][1]:
            before = groups.pop()
            start, end, score = min(start, before[0]), max(end, before[1]), score + before[2]
        groups.append((start, end, score))
    parts: list[Part] = []
    position = 0
    for start, end, score in groups:
        if start > position:
            parts.append(Part(text[position:start], None))
        parts.append(Part(text[start:end], score))
        position = end
    return [*parts, Part(text[position:], None)] if position < len(text) else parts


__all__ = [
    "DEFAULT_METHOD",
    "STEPS",
    "Explanation",
    "Method",
    "Part",
    "explain",
    "integrate_gradients",
    "log_odds",
    "score_tokens",
]
