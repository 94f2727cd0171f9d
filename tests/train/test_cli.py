"""The command line: help at once, one clear line for what went wrong, and the commands of the model."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from greffe.modeling import GreffeForCausalLM
from greffe.train.cli import COMMANDS, main
from reference_experiment import ReferenceModel


def greffe(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "greffe.train.cli", *arguments], cwd=cwd, capture_output=True, text=True
    )


def test_help_lists_every_subcommand(tmp_path: Path) -> None:
    output = greffe("--help", cwd=tmp_path)
    assert output.returncode == 0
    for name, summary in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", output.stdout, re.MULTILINE)


@pytest.mark.parametrize("arguments", [[], *([name] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import sys\nfrom greffe.train.cli import main\n"
        f"try: main({[*arguments, '--help']})\nexcept SystemExit as done: assert done.code == 0\n"
        "names = {'torch', 'transformers', 'datasets', 'numpy', 'pandas', 'pyarrow', 'huggingface_hub'}\n"
        "heavy = names & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "usage: greffe" in done.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"greffe {version('greffe')}\n"


def test_unknown_subcommand() -> None:
    with pytest.raises(SystemExit) as exit_code:
        main(["trian"])
    assert exit_code.value.code == 2


def test_params_prints_the_figures_of_the_write_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params"]) == 0
    assert "21,018,401" in capsys.readouterr().out
    assert main(["params", "--num_labels", "2"]) == 0
    assert "10,968,602" in capsys.readouterr().out
    sizes = ["--vocab_size", "5000", "--hidden_size", "200", "--num_hidden_layers", "6"]
    assert main(["params", *sizes]) == 0
    assert "3,440,000" in capsys.readouterr().out
    assert main(["params", *sizes, "--num_labels", "2"]) == 0
    assert "2,440,400" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "smal"], "expected a preset among ['lab', 'small'], found 'smal'"),
        (
            ["--hidden_size", "30", "--num_attention_heads", "4"],
            "expected hidden_size to be a multiple of num_attention_heads, found hidden_size=30 and "
            "num_attention_heads=4",
        ),
        (["--num_labels", "0"], "expected --num_labels of at least 1, found 0"),
        (["--model", "nowhere"], "expected a model folder with a config.json in nowhere, found no such folder"),
        (["--model", "x", "--vocab_size", "5"], "expected --model or sizes, found --model x with ['vocab_size']"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", *arguments]) == 1
    assert capsys.readouterr().err == f"greffe: error: {message}\n"


def test_traceback_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GREFFE_TRACEBACK", "1")
    with pytest.raises(ValueError, match="expected a preset"):
        main(["params", "--preset", "smal"])


def test_mistakes_in_greffe_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from greffe.train.commands import params

    monkeypatch.setattr(params, "run", lambda options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["params"])


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m greffe.train.cli params | true", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr == ""


def test_convert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = ReferenceModel()
    torch.save({"model_state_dict": reference.state_dict()}, tmp_path / "checkpoint.pt")
    assert main(["convert", str(tmp_path / "checkpoint.pt"), "--output", str(tmp_path / "model")]) == 0
    assert "GreffeForCausalLM of 19,233 parameters" in capsys.readouterr().out
    ids = torch.randint(97, (2, 8))
    with torch.no_grad():
        logits = GreffeForCausalLM.from_pretrained(tmp_path / "model").eval()(ids).logits
    torch.testing.assert_close(logits, reference.logits(ids), atol=1e-5, rtol=0)


def test_convert_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(b"no checkpoint")
    assert main(["convert", str(tmp_path / "checkpoint.pt"), "--output", str(tmp_path / "model")]) == 1
    assert "greffe: error: expected a file of tensors" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    assert main(["convert", str(tmp_path / "checkpoint.pt"), "--output", str(tmp_path)]) == 1
    assert "expected a new or empty folder" in capsys.readouterr().err
