"""Texts that a language model continues: how each draws its tokens, and several of them in one batch."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn

# What the decoder gives for bytes that are not, or not yet, a character.
_UNFINISHED = "\ufffd"
# Tokens of a prompt that go through the model at once: between two chunks others have their turn.
_CHUNK = 512
# Columns of the cache times texts. A token costs some kilobytes in it, and padding as much as text.
_MOST_POSITIONS = 1 << 15


# The ids so far, (1, T), and the scores of the next token, (1, V), to other scores.
Processor = Callable[[Any, Any], Any]


class PieceDecoder:
    """The text of tokens as it becomes certain: a token may end in the middle of a character.

    A piece is decoded after the one before it: some tokenizers drop the space at the start of a text.
    """

    def __init__(self, tokenizer: Any, context: list[int]):
        self._tokenizer, self._context = tokenizer, context
        self._pending: list[int] = []

    def add(self, token: int) -> str:
        """What can be read now; nothing in the middle of a character."""
        self._pending.append(token)
        text = self._text()
        if not text or text.endswith(_UNFINISHED):
            return ""
        self._context, self._pending = self._pending, []
        return text

    def finish(self) -> str:
        """What is left when no more tokens come."""
        return self._text() if self._pending else ""

    def _text(self) -> str:
        before, after = (
            self._tokenizer.decode(ids, skip_special_tokens=True)
            for ids in (self._context, self._context + self._pending)
        )
        return after[len(before) :]


class Continuation:
    """A text that is being continued. Made by `LanguageModel.begin`."""

    def __init__(
        self,
        ids: Tensor,  # (1, T)
        max_new_tokens: int,
        processors: Sequence[Processor],
        draw: torch.Generator | None,
        decoder: PieceDecoder,
        ends: Collection[int],
    ):
        self.ids = ids  # those of the prompt, then also those that were written
        self.is_over = False
        self._left, self._processors, self._draw = max_new_tokens, processors, draw
        self._decoder, self._ends = decoder, ends

    @torch.inference_mode()
    def add(self, logits: Tensor) -> str:
        """Draw the next token from its logits, (1, V), and give the text that has become certain; it may be none."""
        scores = logits.float()
        for process in self._processors:  # not a LogitsProcessorList, which looks at signatures each time
            scores = process(self.ids, scores)
        if self._draw is None:
            token = scores.argmax(-1, keepdim=True)
        else:
            token = torch.multinomial(scores.softmax(-1), 1, generator=self._draw)
        self.ids = torch.cat([self.ids, token], dim=1)
        self._left -= 1
        if int(token) in self._ends:
            self.is_over = True
            return self._decoder.finish()
        piece = self._decoder.add(int(token))
        self.is_over = self._left == 0
        return piece + self._decoder.finish() if self.is_over else piece


class Prompt:
    """The prompt of a text on its way into a cache, chunk by chunk: one that nobody waits for any more can be left."""

    def __init__(self, model: Any, text: Continuation):
        self.text, self.length = text, text.ids.shape[1]
        self.cache: Any = None
        self._model, self._read = model, 0

    @torch.inference_mode()
    def read(self) -> Tensor | None:
        """Read the next chunk. After the last one: the logits of the first token that is to be written, (1, V)."""
        chunk = self.text.ids[:, self._read : self._read + _CHUNK]
        output = self._model(chunk, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.cache = output.past_key_values
        self._read += chunk.shape[1]
        return output.logits[:, -1] if self._read == self.length else None


class TextBatch:
    """Texts that are continued together: a step writes one token of each. They come and go between two steps.

    Rows are padded on the left, so that all end in the last column of the cache. Positions count real tokens, and each
    text has its own draw: its company changes nothing for it but the rounding.
    """

    def __init__(self, model: Any):
        self.texts: list[Continuation] = []
        self._model = model
        self._cache: Any = None  # of all tokens but the newest of each text
        self._mask = torch.empty(0, 0)  # (B, S)

    def has_room(self, prompt: Prompt) -> bool:
        """Whether the cache of one more text is not too large. A text alone may have any length."""
        columns = max(self._mask.shape[1], prompt.length)
        return not self.texts or (len(self.texts) + 1) * columns <= _MOST_POSITIONS

    @torch.inference_mode()
    def join(self, prompt: Prompt) -> None:
        """Take in a text whose prompt has been read and whose first token has been written."""
        mask = torch.ones(1, prompt.length, dtype=torch.long, device=prompt.text.ids.device)
        if not self.texts:
            self._cache, self._mask = prompt.cache, mask
        else:
            self._mask = _stack(self._mask[:, :, None], mask[:, :, None])[:, :, 0]
            for ours, theirs in zip(self._cache.layers, prompt.cache.layers, strict=True):
                ours.keys, ours.values = _stack(ours.keys, theirs.keys), _stack(ours.values, theirs.values)
        self.texts.append(prompt.text)

    @torch.inference_mode()
    def step(self) -> list[tuple[Continuation, str]]:
        """Write one token of each text. Those that are over leave."""
        newest = torch.cat([text.ids[:, -1:] for text in self.texts])  # (B, 1)
        self._mask = nn.functional.pad(self._mask, (0, 1), value=1)
        output = self._model(
            newest, attention_mask=self._mask, past_key_values=self._cache, use_cache=True, logits_to_keep=1
        )
        pieces = [(text, text.add(output.logits[row, -1:])) for row, text in enumerate(self.texts)]
        self.remove([text for text in self.texts if text.is_over])
        return pieces

    @torch.inference_mode()
    def remove(self, gone: Collection[Continuation]) -> None:
        """Leave these texts, and the columns that only they had."""
        rows = [row for row, text in enumerate(self.texts) if text not in gone]
        if len(rows) == len(self.texts):
            return
        self.texts = [self.texts[row] for row in rows]
        if not rows:
            self._cache, self._mask = None, torch.empty(0, 0)
            return
        self._mask = self._mask[rows]
        first = int(self._mask.argmax(1).min())
        self._mask = self._mask[:, first:]
        for layer in self._cache.layers:
            layer.keys, layer.values = layer.keys[rows, :, first:], layer.values[rows, :, first:]


def _stack(above: Tensor, below: Tensor) -> Tensor:
    """Rows of (…, S, hd) and one more below them, the shorter padded on the left."""
    width = max(above.shape[-2], below.shape[-2])
    return torch.cat([nn.functional.pad(rows, (0, 0, width - rows.shape[-2], 0)) for rows in (above, below)])


__all__ = ["Continuation", "PieceDecoder", "Processor", "Prompt", "TextBatch"]
