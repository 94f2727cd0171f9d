"""Options from flags, from a YAML file and from Python are the same options."""

from dataclasses import fields
from pathlib import Path

import pytest
from greffe.train.arguments import FinetuneArguments, PretrainArguments, StageArguments, parse_arguments
from processes import flags_of


def parse(stage: type[StageArguments], *argv: str) -> StageArguments:
    return parse_arguments(stage, argv, "greffe stage", "…")


@pytest.mark.parametrize(
    "arguments",
    [
        PretrainArguments(corpus=["a.txt", "b.jsonl"], output="run", objective="hybrid", max_minutes=2.5),
        FinetuneArguments(model="m", train="t.csv", output="run", deduplicate=True, early_stopping_patience=3),
    ],
)
def test_flags_give_what_python_gives(arguments: StageArguments) -> None:
    assert parse(type(arguments), *flags_of(arguments)) == arguments


@pytest.mark.parametrize("stage", [PretrainArguments, FinetuneArguments])
def test_every_option_is_documented(stage: type[StageArguments]) -> None:
    assert [f.name for f in fields(stage) if not f.metadata.get("help")] == []


def test_flags_override_the_file_which_overrides_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "options.yaml"
    path.write_text("corpus: [a.txt, b.txt]\noutput: run\nlearning_rate: 3e-4\nblock_size: 64\nbf16: off\n")
    options = parse(PretrainArguments, "--config", str(path), "--block_size", "32", "--corpus", "c.txt")
    assert (options.learning_rate, options.block_size, options.seed) == (3e-4, 32, 0)
    assert (options.corpus, options.bf16) == (["c.txt"], "off")


def test_a_value_of_the_file_that_starts_with_a_dash(tmp_path: Path) -> None:
    path = tmp_path / "options.yaml"
    path.write_text('corpus: [-a.txt]\noutput: run\nsample_prompt: "-Oui"\npacking: false\n')
    options = parse(PretrainArguments, "--config", str(path))
    assert (options.corpus, options.sample_prompt, options.packing) == (["-a.txt"], "-Oui", False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("corpse: a.txt", r"found \['corpse'\]"),
        ("- a\n- b", "expected options as `name: value`"),
        ("corpus: [a", "expected YAML in"),
    ],
)
def test_faults_of_the_file_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "options.yaml").write_text(content)
    with pytest.raises(ValueError, match=message):
        parse(PretrainArguments, "--config", str(tmp_path / "options.yaml"))


def test_missing_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"expected a YAML file at --config nowhere\.yaml"):
        parse(PretrainArguments, "--config", "nowhere.yaml")


@pytest.mark.parametrize(
    "argv",
    [["--learning_rat=1"], ["--lr=1"], ["--learning_rate=fast"], ["--objective=guess"], ["--bf16=maybe"]],
)
def test_unknown_flags_and_values_end_with_a_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(PretrainArguments, "--corpus", "a.txt", "--output", "run", *argv)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("greffe stage: error: ")
