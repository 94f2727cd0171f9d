"""A trained language model that continues a text, a piece at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from greffe.tokenization.fast_tokenizer import check_unicode
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from .model_folder import load_head

# What the decoder gives for bytes that are not, or not yet, a character.
_UNFINISHED = "\ufffd"


@dataclass
class LanguageModel:
    """A causal model and its tokenizer. Made by `load_language_model`.

    ```python
    >>> model = load_language_model("language-model")
    >>> for piece in model.generate("Ce livre", seed=1):
    ...     print(piece, end="", flush=True)
    ```
    """

    folder: Path
    model: Any
    tokenizer: Any

    def generate(
        self,
        prompt: str = "",
        *,
        max_new_tokens: int = 100,
        temperature: float = 0.8,
        top_k: int = 50,
        top_p: float = 1.0,
        repetition_penalty: float = 1.0,
        seed: int | None = None,
        use_cache: bool = True,
    ) -> Iterator[str]:
        """What the model writes after the prompt, piece by piece, until it writes the end token.

        `temperature` 0 takes the most probable token each time; `top_k` 0 and `top_p` 1 leave all tokens in the draw.
        The draw is this call's own: the same seed gives the same text, whatever else runs beside it. An iterator that
        is closed computes no further.
        """
        check_unicode(prompt, "the prompt")
        processors = self._processors(temperature, top_k, top_p, repetition_penalty)
        if max_new_tokens < 1:
            raise ValueError(f"expected max_new_tokens of at least 1, found {max_new_tokens}")
        draw = torch.Generator(self.model.device)
        draw.seed() if seed is None else draw.manual_seed(seed)
        ids = self.tokenizer(prompt, truncation=False, verbose=False, return_tensors="pt")["input_ids"]
        tokens = self._continue(
            ids.to(self.model.device), max_new_tokens, processors, draw if temperature else None, use_cache
        )
        return self._decode(ids[0].tolist(), tokens)

    def _processors(
        self, temperature: float, top_k: int, top_p: float, repetition_penalty: float
    ) -> Callable[..., Tensor]:
        """What changes the logits before the draw, in the order in which transformers applies them."""
        _check_settings(temperature, top_k, top_p, repetition_penalty)
        # Control tokens are not text; only the end is for the model to write.
        control = sorted(set(self.tokenizer.all_special_ids) - {self.tokenizer.eos_token_id})
        processors = LogitsProcessorList()
        if repetition_penalty != 1:
            processors.append(RepetitionPenaltyLogitsProcessor(repetition_penalty))
        if control:
            processors.append(SuppressTokensLogitsProcessor(control, device=self.model.device))
        if temperature:
            processors.append(TemperatureLogitsWarper(float(temperature)))
            if top_k:
                processors.append(TopKLogitsWarper(top_k))
            if top_p < 1:
                processors.append(TopPLogitsWarper(float(top_p)))
        return processors

    def _continue(
        self,
        ids: Tensor,  # (1, T)
        max_new_tokens: int,
        processors: Callable[..., Tensor],
        draw: torch.Generator | None,
        use_cache: bool,
    ) -> Iterator[int]:
        """The ids that follow, one at a time. With a cache only the newest token goes through the model.

        This is not `model.generate` in a thread: a loop can be left at any token, and has a draw of its own.
        """
        cache, seen = None, ids
        for _ in range(max_new_tokens):
            with torch.inference_mode():
                output = self.model(seen, past_key_values=cache, use_cache=use_cache, logits_to_keep=1)
                scores = processors(ids, output.logits[:, -1].float())
                if draw is None:
                    token = scores.argmax(-1, keepdim=True)
                else:
                    token = torch.multinomial(scores.softmax(-1), 1, generator=draw)
                ids = torch.cat([ids, token], dim=1)
            if token.item() in self._end_ids():
                return
            yield int(token.item())
            cache = output.past_key_values if use_cache else None
            seen = token if use_cache else ids

    def _end_ids(self) -> set[int]:
        ends = self.model.config.eos_token_id
        return set(ends if isinstance(ends, list) else [ends])

    def _decode(self, context: list[int], tokens: Iterator[int]) -> Iterator[str]:
        """The text of the tokens as it becomes certain: a piece may end in the middle of a character.

        A piece is decoded after the one before it: some tokenizers drop the space at the start of a text.
        """
        pending: list[int] = []
        for token in tokens:
            pending.append(token)
            text = self._text_after(context, pending)
            if text and not text.endswith(_UNFINISHED):
                yield text
                context, pending = pending, []
        if pending and (text := self._text_after(context, pending)):
            yield text

    def _text_after(self, context: list[int], pending: list[int]) -> str:
        decoded: list[str] = [
            self.tokenizer.decode(ids, skip_special_tokens=True) for ids in (context, context + pending)
        ]
        return decoded[1][len(decoded[0]) :]


def _check_settings(temperature: float, top_k: int, top_p: float, repetition_penalty: float) -> None:
    if temperature < 0:
        raise ValueError(f"expected a temperature of at least 0, found {temperature}")
    if top_k < 0:
        raise ValueError(f"expected top_k of at least 0, found {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"expected top_p in (0, 1], found {top_p}")
    if repetition_penalty <= 0:
        raise ValueError(f"expected a repetition penalty above 0, found {repetition_penalty}")


def load_language_model(model: str | os.PathLike[str]) -> LanguageModel:
    """The language model of a folder, or of `organisation/name[@revision]` in the local hub."""
    return LanguageModel(*load_head(model, "GreffeForCausalLM", "a causal language model"))


__all__ = ["LanguageModel", "load_language_model"]
