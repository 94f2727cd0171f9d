"""`greffe serve` before it serves: what it refuses, and how it says so."""

from pathlib import Path

import pytest
import torch
from greffe.modeling import GreffeForMaskedLM
from greffe.train.cli import main
from model_server import save_classifier, save_language_model
from tiny_models import tiny_config
from tiny_tokenizers import word_tokenizer


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_classifier(folder / "classifier")
    save_language_model(folder / "writer")
    torch.manual_seed(0)
    GreffeForMaskedLM(tiny_config()).save_pretrained(folder / "masked")
    word_tokenizer().save_pretrained(folder / "masked")
    return folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classifier", "--host", "0.0.0.0"], "expected --token for --host 0.0.0.0, where others can reach the server"),
        (["classifier", "--token", ""], "expected a token, found an empty one; give another, or neither --token nor"),
        (["classifier", "--token", "a b"], "expected a token of printable ASCII characters without spaces"),
        (["classifier", "--no-page", "--compare", "classifier"], "expected --compare with the page"),
        (["classifier", "--compare", "writer"], "expected two models of one kind, found a classifier in"),
        (["masked"], "found a masked language model, which fills gaps and cannot continue a text"),
        (["nothing"], "nothing"),
        (["classifier", "--max_batch", "0"], "expected --max_batch of at least 1, found 0"),
        (["classifier", "--port", "70000"], "expected a port from 0 to 65535, found 70000"),
    ],
)
def test_refused_with_one_line(
    arguments: list[str],
    message: str,
    folders: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folders)
    monkeypatch.delenv("GREFFE_SERVE_TOKEN", raising=False)
    assert main(["serve", *arguments, *([] if "--port" in arguments else ["--port", "0"])]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("greffe: error: ")
    assert len(error.splitlines()) == 1


def test_the_token_of_the_environment(
    folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is given on the command line counts, though it be empty; else the environment's."""
    served: list[str | None] = []
    monkeypatch.setattr("greffe.inference.server.serving.serve", lambda *_, token, **__: served.append(token))
    monkeypatch.setenv("GREFFE_SERVE_TOKEN", "environment")
    for options in ([], ["--token", "given"], ["--token", ""]):
        assert main(["serve", str(folders / "classifier"), *options]) == 0
    assert served == ["environment", "given", ""]
