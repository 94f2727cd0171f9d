"""Texts that are written together: each is the one that it would be alone, whoever comes and goes beside it."""

from typing import Any

import pytest
import torch
from greffe.inference import LanguageModel, decoding
from greffe.inference.decoding import Continuation, Prompt, TextBatch
from invented_text import make_documents

# None is at the end of a document, after which the model has nothing to write.
PROMPTS = ["Ba lo mi", "", *(f"{text} Ba lo" for text in make_documents(6, seed=11))]
PROMPTS.append(" ".join(make_documents(30, seed=12)) + " Mi ré")
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0.8, "seed": 1},
    {"temperature": 1.2, "seed": 2, "top_k": 0, "top_p": 0.7},
    {"temperature": 0, "repetition_penalty": 1.4},
]
DEFAULTS = {"max_new_tokens": 25, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.0, "seed": 0}


def settings_of(number: int) -> dict[str, Any]:
    return {**DEFAULTS, **SETTINGS[number % len(SETTINGS)], "max_new_tokens": 5 + 4 * number}


def read(model: LanguageModel, prompt: str, settings: dict[str, Any]) -> tuple[Prompt, str]:
    """A prompt that has been read to its end, and the first piece."""
    found = Prompt(model.model, model.begin(prompt, **settings))
    while (logits := found.read()) is None:
        pass
    return found, found.text.add(logits)


def write_together(model: LanguageModel, pauses: int) -> list[str]:
    """All prompts, a new one every so many steps."""
    batch = TextBatch(model.model)
    texts: list[Continuation] = []
    pieces: dict[Continuation, str] = {}
    steps = 0
    while len(texts) < len(PROMPTS) or batch.texts:
        if len(texts) < len(PROMPTS) and steps % pauses == 0:
            prompt, piece = read(model, PROMPTS[len(texts)], settings_of(len(texts)))
            texts.append(prompt.text)
            pieces[prompt.text] = piece
            if not prompt.text.is_over:
                batch.join(prompt)
        for text, piece in batch.step() if batch.texts else []:
            pieces[text] += piece
        steps += 1
    return [pieces[text] for text in texts]


@pytest.mark.parametrize("pauses", [1, 3, 30])
def test_company_changes_nothing(language_model: LanguageModel, pauses: int) -> None:
    alone = ["".join(language_model.generate(prompt, **settings_of(number))) for number, prompt in enumerate(PROMPTS)]
    assert len(set(alone)) > 5, "texts that are all the same would hide a mix-up"
    assert write_together(language_model, pauses) == alone


def test_a_prompt_is_read_in_chunks(language_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "_CHUNK", 64)
    settings = {**DEFAULTS, "temperature": 0}
    text = language_model.begin(PROMPTS[-1], **settings)
    prompt = Prompt(language_model.model, text)
    calls: list[int] = []
    hook = language_model.model.register_forward_hook(lambda _, inputs, __: calls.append(inputs[0].shape[1]))
    logits = [prompt.read() for _ in range(-(-prompt.length // 64))]
    hook.remove()
    assert len(calls) > 3
    assert max(calls) == 64
    assert sum(calls) == prompt.length
    assert [found is None for found in logits] == [True] * (len(calls) - 1) + [False]
    with torch.no_grad():
        whole = language_model.model(text.ids).logits[:, -1]
    torch.testing.assert_close(logits[-1], whole, atol=1e-4, rtol=1e-4)


def test_who_leaves_takes_the_padding_along(language_model: LanguageModel) -> None:
    batch = TextBatch(language_model.model)
    short, long = (read(language_model, PROMPTS[number], {**DEFAULTS, "temperature": 0})[0] for number in (0, -1))
    for prompt in (short, long):
        batch.join(prompt)
    batch.step()
    assert {tuple(layer.keys.shape[::2]) for layer in batch._cache.layers} == {(2, long.length + 1)}
    batch.remove([long.text])
    assert {tuple(layer.keys.shape[::2]) for layer in batch._cache.layers} == {(1, short.length + 1)}
    assert batch._mask.tolist() == [[1] * (short.length + 1)]
    batch.remove([short.text])
    assert batch.texts == []
    assert batch._cache is None


def test_the_cache_has_a_size(language_model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Padding counts: a short text beside a long one takes as much of it."""
    short, long = (read(language_model, PROMPTS[number], {**DEFAULTS, "temperature": 0})[0] for number in (0, -1))
    monkeypatch.setattr(decoding, "_MOST_POSITIONS", 2 * long.length - 1)
    batch = TextBatch(language_model.model)
    assert batch.has_room(long)
    batch.join(short)
    assert batch.has_room(short)
    assert not batch.has_room(long)
    batch.remove([short.text])
    batch.join(long)
    assert not batch.has_room(short)
