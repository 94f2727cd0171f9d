import pytest
from greffe.modeling import GreffeConfig, GreffeForCausalLM, GreffeForSequenceClassification, GreffeModel
from greffe.modeling.parameters import PartCount, count_parameters, format_parameters, load_structure
from greffe.train.cli import main
from tiny_models import tiny_config


def test_parts_of_the_experiment() -> None:
    counts = {count.part: count for count in count_parameters(load_structure())}
    assert counts["embedding"].total == 10_000_200
    assert sum(counts[part].total for part in ("attention", "feed-forward", "norms")) == 968_000
    assert counts["head"].total == 10_050_201
    d = 200
    assert counts["attention"].total == 4 * (4 * d * (d + 1))
    assert counts["feed-forward"].total == 4 * (2 * d * (d + 1))
    assert counts["norms"].total == 4 * (4 * d)


@pytest.mark.parametrize(("num_labels", "matrices"), [(None, 3_440_000), (2, 2_440_400)])
def test_matrices_of_the_write_up(num_labels: int | None, matrices: int) -> None:
    model = load_structure(num_labels=num_labels, overrides={"vocab_size": 5000, "num_hidden_layers": 6})
    assert sum(count.matrices for count in count_parameters(model)) == matrices
    assert f"{matrices:,}" in format_parameters("", count_parameters(model)).splitlines()[-1]


@pytest.mark.parametrize("model_class", [GreffeModel, GreffeForCausalLM, GreffeForSequenceClassification])
def test_counts_add_up(model_class: type, kind: str) -> None:
    model = model_class(tiny_config(kind))
    counts = count_parameters(model)
    assert sum(count.total for count in counts) == model.num_parameters()
    assert sum(count.trainable for count in counts) == model.num_parameters(only_trainable=True)


def test_frozen_trunk() -> None:
    model = GreffeForSequenceClassification(tiny_config())
    model.base_model.requires_grad_(False)
    trainable = {count.part: count.trainable for count in count_parameters(model)}
    assert trainable.pop("head") == 66
    assert not any(trainable.values())


def test_folder_needs_no_weights(tmp_path) -> None:
    config = GreffeConfig(num_labels=7, architectures=["GreffeForSequenceClassification"])
    config.save_pretrained(tmp_path)
    model = load_structure(str(tmp_path))
    assert isinstance(model, GreffeForSequenceClassification)
    assert model.score.out_features == 7
    assert model.device.type == "meta"


def test_path_of_ngrams(tmp_path, capsys) -> None:
    model = GreffeForSequenceClassification(tiny_config(ngram_order=2, ngram_buckets=64, num_labels=3))
    model.base_model.requires_grad_(False)
    counts = count_parameters(model)
    assert counts[-1] == PartCount("n-grams", layers=0, total=192, matrices=192, trainable=192)
    assert sum(count.total for count in counts) == model.num_parameters()
    model.save_pretrained(tmp_path)
    assert main(["params", "--model", str(tmp_path)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["n-grams", "192", "192", "192", "0"] in rows
    assert rows[-1][:2] == ["total", f"{model.num_parameters():,}"]


def test_folders_that_hold_no_model(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        load_structure(str(tmp_path / "nowhere"))
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileNotFoundError, match=r"notes\.txt"):
        load_structure(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(ValueError, match=r"expected model_type 'greffe' .* found 'gpt2'"):
        load_structure(str(tmp_path))
