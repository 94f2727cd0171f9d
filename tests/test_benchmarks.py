"""The benchmarks: they run end to end at a tiny size, on invented text, and compare like with like."""

# ruff: noqa: E402 (the benchmarks are no part of the package: the path comes before the imports)
from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
import torch
from greffe.modeling import PRESETS, GreffeConfig, GreffeForCausalLM
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2LMHeadModel

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from benchmarks import ceiling, gpt2, nanogpt, ours, reference
from benchmarks.__main__ import BENCHMARKS
from benchmarks.gate import Gate
from benchmarks.report import Case
from benchmarks.rounds import Measured
from benchmarks.sizes import SIZES
from benchmarks.targets import TARGETS, Target
from benchmarks.text import invent_labelled, invent_texts
from benchmarks.workload import Workload, make_word_tokenizer, write_labelled


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
def test_every_benchmark_end_to_end(tmp_path: Path, names: set[str]) -> None:
    done = run("benchmarks", *sorted(names), "--json", tmp_path / "results.json")
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["cases"].keys() == names
    for name, cases in results["cases"].items():
        compared = {peer for case in cases for peer, values in case["contenders"].items() if "ratios" in values}
        assert compared >= PEERS[name], name
        if name == "finetune":
            shares = [values["facts"]["padding"] for values in cases[0]["contenders"].values()]
            assert all(0 < share < 1 for share in shares)
            assert shares[0] < max(shares), "texts of similar lengths share Greffe's batches"
        for case in cases:
            assert all(values["median"] > 0 for values in case["contenders"].values())
            assert all(f"\n{peer}  " in done.stdout for peer in case["contenders"])
    assert results["machine"]["threads"] == 1
    assert done.stdout.count("not measured") == len(TARGETS), "targets are of sizes that were not run"


def test_every_benchmark_is_tested() -> None:
    assert tuple(PEERS) == BENCHMARKS


def test_profile(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.profile", "--size", "tiny", "--steps", "2", "--rows", "3"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=1800)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("a step") == 2, done.stdout  # pre-training and fine-tuning
    assert done.stdout.count("no operator: Python") == 2
    assert "aten::" in done.stdout


def test_contender_that_fails_says_why(tmp_path: Path) -> None:
    """Texts of three words are no prompts; only the contender's process can know."""
    texts = [" ".join(text.split()[:3]) for text in invent_texts(3000)]
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


def test_invented_text_is_shaped_like_reviews() -> None:
    texts = invent_texts(3000)
    assert texts == invent_texts(3000)
    lengths = np.array([len(text.replace(",", " ,").replace(".", " .").split()) for text in texts])
    assert 93 < np.median(lengths) < 107
    assert 0.72 < np.log(lengths).std() < 0.82
    assert 0.08 < (lengths > 256).mean() < 0.15
    counts = [count for _, count in Counter(re.findall(r"\w+", " ".join(texts))).most_common()]
    assert 6.5 < counts[9] / counts[99] < 8.7, "by Zipf's law, shifted by 2.7 and two signs: 7.6"
    labels = Counter(label for _, label in invent_labelled(400))
    assert min(labels.values()) > 150


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


def test_ceiling_has_the_products_of_a_step() -> None:
    """What is counted is what is multiplied; and a training step of Greffe multiplies as much, attention apart."""
    size = SIZES["tiny"]

    class OneStep:
        def step(self, **counts: float) -> None:
            self.gigaflops = counts["gigaflops"]
            raise SystemExit

    step = OneStep()
    with FlopCounterMode(display=False) as products, pytest.raises(SystemExit):
        ceiling.multiply(step, size, 2, 64, "float32")
    assert products.get_total_flops() == step.gigaflops * 1e9

    config = GreffeConfig.from_preset(
        size.preset,
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.feed_forward,
    )
    model = GreffeForCausalLM(config).train()
    ids = torch.randint(4, size.vocabulary, (2, 64))
    with FlopCounterMode(display=False) as training:
        model(ids, labels=ids).loss.backward()
    # The last position of a row has no target, and is not multiplied with the vocabulary.
    assert count_linear(training) == pytest.approx(count_linear(products), rel=0.02)
