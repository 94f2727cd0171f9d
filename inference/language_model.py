"""A trained language model that continues a text, a piece at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from greffe.tokenization.fast_tokenizer import check_unicode
from transformers import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from .decoding import Continuation, PieceDecoder, Processor
from .model_folder import load_head

# Temperatures other than 0, and repetition penalties.
COLDEST, HOTTEST = 0.001, 100
LEAST_PENALTY, MOST_PENALTY = 0.01, 100


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
        text = self.begin(
            prompt,
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            repetition_penalty=repetition_penalty,
            seed=seed,
        )
        return self._write(text, use_cache)

    def begin(
        self,
        prompt: str,
        *,
        max_new_tokens: int,
        temperature: float,
        top_k: int,
        top_p: float,
        repetition_penalty: float,
        seed: int | None,
    ) -> Continuation:
        """A text that starts with the prompt, for those who run the model themselves; settings as in `generate`."""
        check_unicode(prompt, "the prompt")
        processors = self._processors(temperature, top_k, top_p, repetition_penalty)
        if max_new_tokens < 1:
            raise ValueError(f"expected max_new_tokens of at least 1, found {max_new_tokens}")
        draw = torch.Generator(self.model.device)
        draw.seed() if seed is None else draw.manual_seed(seed)
        ids = self.tokenizer(prompt, truncation=False, verbose=False, return_tensors="pt")["input_ids"]
        return Continuation(
            ids.to(self.model.device),
            max_new_tokens,
            processors,
            draw if temperature else None,
            PieceDecoder(self.tokenizer, ids[0].tolist()),
            self._end_ids(),
        )

    def _processors(self, temperature: float, top_k: int, top_p: float, repetition_penalty: float) -> list[Processor]:
        """What changes the logits before the draw, in the order in which transformers applies them."""
        _check_settings(temperature, top_k, top_p, repetition_penalty)
        processors: list[Processor] = []
        if repetition_penalty != 1:
            processors.append(RepetitionPenaltyLogitsProcessor(float(repetition_penalty)))
        # Control tokens are not text; only the end is for the model to write.
        control = torch.zeros(self.model.config.vocab_size, dtype=torch.bool, device=self.model.device)
        control[list(set(self.tokenizer.all_special_ids) - {self.tokenizer.eos_token_id})] = True
        processors.append(lambda ids, scores: scores.masked_fill(control, -torch.inf))
        if temperature:
            processors.append(TemperatureLogitsWarper(float(temperature)))
            if top_k:
                processors.append(TopKLogitsWarper(top_k))
            if top_p < 1:
                processors.append(TopPLogitsWarper(float(top_p)))
        return processors

    def _write(self, text: Continuation, use_cache: bool) -> Iterator[str]:
        """The pieces that follow. With a cache only the newest token goes through the model.

        This is not `model.generate` in a thread: a loop can be left at any token, and has a draw of its own.
        """
        cache, seen = None, text.ids
        while not text.is_over:
            with torch.inference_mode():
                output = self.model(seen, past_key_values=cache, use_cache=use_cache, logits_to_keep=1)
            if piece := text.add(output.logits[:, -1]):
                yield piece
            cache = output.past_key_values if use_cache else None
            seen = text.ids[:, -1:] if use_cache else text.ids

    def _end_ids(self) -> set[int]:
        ends = self.model.config.eos_token_id
        return set(ends if isinstance(ends, list) else [ends])


def _check_settings(temperature: float, top_k: int, top_p: float, repetition_penalty: float) -> None:
    # Beyond these bounds the scores overflow, and the draw fails; written so that NaN is refused too.
    if not (temperature == 0 or COLDEST <= temperature <= HOTTEST):
        raise ValueError(f"expected a temperature of 0, or from {COLDEST} to {HOTTEST}, found {temperature}")
    if top_k < 0:
        raise ValueError(f"expected top_k of at least 0, found {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"expected top_p in (0, 1], found {top_p}")
    if not LEAST_PENALTY <= repetition_penalty <= MOST_PENALTY:
        raise ValueError(
            f"expected a repetition penalty from {LEAST_PENALTY} to {MOST_PENALTY}, found {repetition_penalty}"
        )


def load_language_model(model: str | os.PathLike[str]) -> LanguageModel:
    """The language model of a folder, or of `organisation/name[@revision]` in the local hub."""
    return LanguageModel(*load_head(model, "GreffeForCausalLM", "a causal language model"))


__all__ = ["COLDEST", "HOTTEST", "LEAST_PENALTY", "MOST_PENALTY", "LanguageModel", "load_language_model"]
