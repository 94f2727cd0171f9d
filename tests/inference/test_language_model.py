"""Generation: the text of transformers' own `generate`, piece by piece, from any prompt, until the end token."""

import io
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from greffe.inference import LanguageModel, load_language_model
from greffe.inference.decoding import PieceDecoder
from greffe.modeling import GreffeForMaskedLM
from greffe.tokenization import load_tokenizer
from greffe.tokenization.display import _bytes_of_characters
from greffe.train.cli import main
from invented_text import make_documents
from tiny_models import tiny_config

PROMPT = "Ba lo mi"
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0},
    "penalised": {"temperature": 0, "repetition_penalty": 1.3},
    "top_k": {"temperature": 0.7, "top_k": 5},
    "top_p": {"temperature": 1.3, "top_k": 0, "top_p": 0.6},
    "all": {"temperature": 0.9, "top_k": 20, "top_p": 0.8, "repetition_penalty": 1.1},
}


def write(model: LanguageModel, prompt: str = PROMPT, **settings: Any) -> str:
    return "".join(model.generate(prompt, **{"seed": 3, "max_new_tokens": 30, **settings}))


def reference(model: LanguageModel, prompt: str = PROMPT, **settings: Any) -> str:
    ids = model.tokenizer(prompt, return_tensors="pt", verbose=False)
    control = sorted(set(model.tokenizer.all_special_ids) - {model.tokenizer.eos_token_id})
    options = {"top_k": 50, **settings}
    if options["temperature"]:
        options["do_sample"] = True
    else:
        options = {"do_sample": False, **{k: v for k, v in options.items() if k == "repetition_penalty"}}
    torch.manual_seed(3)
    out = model.model.generate(**ids, max_new_tokens=30, suppress_tokens=control, **options)[0]
    whole, start = (model.tokenizer.decode(part, skip_special_tokens=True) for part in (out, ids["input_ids"][0]))
    return whole[len(start) :]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_writes_what_transformers_writes(language_model: LanguageModel, settings: dict[str, Any]) -> None:
    text = write(language_model, **settings)
    assert len(text) > 10
    assert text == reference(language_model, **settings)


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_the_cache_changes_nothing(language_model: LanguageModel, temperature: float) -> None:
    settings = {"temperature": temperature, "max_new_tokens": 40}
    assert write(language_model, **settings) == write(language_model, use_cache=False, **settings)


def test_a_whole_number_is_a_penalty_too(language_model: LanguageModel) -> None:
    text = write(language_model, repetition_penalty=2)
    assert text == write(language_model, repetition_penalty=2.0)
    assert text != write(language_model, repetition_penalty=1)


@pytest.mark.parametrize("temperature", [0, 0.001, 100])
@pytest.mark.parametrize("penalty", [0.01, 100])
def test_the_bounds_of_the_settings_can_be_drawn_from(
    language_model: LanguageModel, temperature: float, penalty: float
) -> None:
    assert write(language_model, temperature=temperature, repetition_penalty=penalty, top_p=0.9)


def test_the_seed_decides(language_model: LanguageModel) -> None:
    first = write(language_model, seed=1)
    torch.manual_seed(99)  # the draws of others do not matter
    assert write(language_model, seed=1) == first
    assert write(language_model, seed=2) != first
    assert len({write(language_model, seed=None) for _ in range(3)}) > 1


def test_two_at_once_do_not_disturb_each_other(language_model: LanguageModel) -> None:
    alone = write(language_model, seed=1), write(language_model, seed=2)
    both = [language_model.generate(PROMPT, seed=seed, max_new_tokens=30) for seed in (1, 2)]
    texts = ["", ""]
    for _ in range(30):
        for index in (0, 1):
            texts[index] += next(both[index], "")
    assert tuple(texts) == alone


def test_stops_at_the_end_token(language_model_folder: Path) -> None:
    model = load_language_model(language_model_folder)
    forward, ends = model.model.forward, model.tokenizer.eos_token_id
    calls = []

    def end_at_the_third(*positional: Any, **keywords: Any) -> Any:
        output = forward(*positional, **keywords)
        calls.append(1)
        if len(calls) == 3:
            output.logits[..., ends] = 1e4
        return output

    model.model.forward = end_at_the_third
    text = write(model, temperature=0)
    assert len(calls) == 3
    assert "</s>" not in text
    assert text == write(load_language_model(language_model_folder), temperature=0, max_new_tokens=2)


def test_stops_when_it_is_closed(language_model: LanguageModel) -> None:
    calls = []
    hook = language_model.model.register_forward_hook(lambda *_: calls.append(1))
    pieces = language_model.generate(PROMPT, max_new_tokens=50, seed=1)
    next(pieces)
    pieces.close()  # type: ignore[attr-defined]
    hook.remove()
    assert 1 <= len(calls) < 10


def test_a_prompt_longer_than_any_trained_row(language_model: LanguageModel) -> None:
    prompt = " ".join(make_documents(80, seed=8)) + " Ba lo"
    assert len(language_model.tokenizer(prompt, verbose=False)["input_ids"]) > 1000
    text = write(language_model, prompt, temperature=0, max_new_tokens=8)
    assert text
    assert text == write(language_model, prompt, temperature=0, max_new_tokens=8, use_cache=False)


def test_pieces_hold_whole_characters(language_model: LanguageModel) -> None:
    """Every byte as a token of its own, as a model may write them."""
    text = "é œ 👩🏽‍🚀 日本 fin"
    characters = {byte: character for character, byte in _bytes_of_characters().items()}
    ids = [language_model.tokenizer.convert_tokens_to_ids(characters[byte]) for byte in text.encode()]
    pieces = decode(language_model, language_model.tokenizer("début")["input_ids"], ids)
    assert [piece for piece in pieces if piece] == list(text)


def decode(model: LanguageModel, context: list[int], ids: Iterable[int]) -> list[str]:
    decoder = PieceDecoder(model.tokenizer, context)
    return [*map(decoder.add, ids), decoder.finish()]


def test_half_a_character_at_the_end_is_shown_as_such(language_model: LanguageModel) -> None:
    ids = language_model.tokenizer.convert_tokens_to_ids(["a", "Ã"])  # the first byte of é
    assert decode(language_model, [], ids) == ["a", "", "\ufffd"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -1}, "expected a temperature of 0, or from 0.001 to 100, found -1"),
        ({"temperature": 1e-9}, "expected a temperature of 0, or from 0.001 to 100, found 1e-09"),
        ({"temperature": float("nan")}, "expected a temperature of 0, or from 0.001 to 100, found nan"),
        ({"top_k": -1}, "expected top_k of at least 0, found -1"),
        ({"top_p": 0}, r"expected top_p in \(0, 1\], found 0"),
        ({"repetition_penalty": 0}, "expected a repetition penalty from 0.01 to 100, found 0"),
        ({"repetition_penalty": 1e-30}, "expected a repetition penalty from 0.01 to 100, found 1e-30"),
        ({"max_new_tokens": 0}, "expected max_new_tokens of at least 1, found 0"),
    ],
)
def test_settings_are_checked_before_the_first_piece(
    language_model: LanguageModel, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        language_model.generate(PROMPT, **settings)


def test_command(
    language_model_folder: Path, language_model: LanguageModel, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["generate", str(language_model_folder), PROMPT, "--seed=3", "--max_new_tokens=30"]
    assert main(command) == 0
    assert capsys.readouterr().out == PROMPT + write(language_model) + "\n"
    assert main([*command, "--num_samples=2"]) == 0
    expected = [f"--- {n}\n{PROMPT}{write(language_model, seed=2 + n)}\n" for n in (1, 2)]
    assert capsys.readouterr().out == "\n".join(expected)


def test_command_reads_standard_input(
    language_model_folder: Path,
    language_model: LanguageModel,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `echo` writes it: the end of the last line is not a part of the prompt, a line end before it is."""
    for given, prompt in ((PROMPT + "\n", PROMPT), (PROMPT, PROMPT), (PROMPT + "\n\n", PROMPT + "\n")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        assert main(["generate", str(language_model_folder), "--seed=3", "--max_new_tokens=30"]) == 0
        assert capsys.readouterr().out == prompt + write(language_model, prompt) + "\n"


def test_a_text_does_not_command_the_terminal(language_model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader, terminal = os.openpty()
    with open(terminal, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert main(["generate", str(language_model_folder), "Ba\x1b[31m lo", "--max_new_tokens=1"]) == 0
        shown = os.read(reader, 10_000)
    os.close(reader)
    assert shown.decode().startswith("Ba\ufffd[31m lo")
    assert b"\x1b" not in shown


def test_masked_models_are_refused(
    language_model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = load_tokenizer(language_model_folder)
    GreffeForMaskedLM(tiny_config(vocab_size=len(tokenizer))).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    assert main(["generate", str(tmp_path / "model"), "Ba"]) == 1
    assert capsys.readouterr().err == (
        f"greffe: error: expected a causal language model in {tmp_path / 'model'}, found a masked language model, "
        "which fills gaps and cannot continue a text; `greffe finetune` makes it a classifier\n"
    )
