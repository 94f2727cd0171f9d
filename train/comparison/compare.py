"""`greffe compare`, or `compare(CompareArguments(…))`: how much pre-training helps, over seeds and label budgets.

Every choice, of an epoch and of a learning rate or strength, is made on validation; a run sees the test set once.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import time
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from greffe.hub import resolve_model
from greffe.modeling.loss import classification_loss
from greffe.modeling.parameters import count_parameters, load_structure, read_config
from greffe.tokenization import load_tokenizer
from tqdm.auto import tqdm
from transformers import EvalPrediction, TrainerCallback
from transformers.utils import logging

from ..arguments import ClassifierOptions, CompareArguments, FinetuneArguments
from ..finetune import LabelledParts, check_arguments, fit, make_rows, predict_logits, read_parts
from ..labels import count_labels
from ..machine import native_bf16
from ..metrics import make_compute_metrics
from ..run_folder import (
    RECORD,
    describe_base,
    describe_machine,
    describe_versions,
    hold_folder,
    total_pretraining,
)
from ..stage_trainer import announce, stop_with_a_line
from .baselines import fit_tfidf, predict_majority
from .budgets import parse_budgets, sample_rows
from .inputs import fingerprint_files
from .report import write_report
from .runs import Run, RunStore, plan_runs

RUNS = "runs"
_WORK = ".work"  # the best weights of the run under way
_RUN_FORMAT = 2  # what a finished run holds; of another format it is repeated
# Of the options that a finished run depends on, these are left out: where things are, and how many runs there are.
_NOT_OF_A_RUN = {"output", "model", "train", "validation", "test", "dictionary", "labels", "seeds", "methods"}


@dataclass(frozen=True)
class Experiment:
    """What all runs share: the data as rows of ids, and what is fixed for all of them."""

    arguments: CompareArguments
    data: LabelledParts
    tokenizer: Any
    rows: dict[str, list[dict[str, Any]]]
    targets: dict[str, list[int]]

    @property
    def classes(self) -> int:
        return len(self.data.labels.names)


def compare(arguments: CompareArguments) -> dict[str, Any]:
    """Run what is not yet done, and write results and report to `arguments.output`; returns the results."""
    start = time.monotonic()
    check_extra()
    arguments = replace(arguments, model=str(resolve_model(arguments.model)))
    read_config(arguments.model)  # a clear error, before any work, where there is no model
    check_runs(arguments)
    check_arguments(finetune_arguments(arguments))
    folder = Path(arguments.output)
    with hold_folder(folder, {RUNS, _WORK, "results.json", "results.csv", "report.md", "report.html", "figures"}):
        experiment = prepare(arguments)
        budgets = parse_budgets(arguments.labels, len(experiment.rows["train"]), experiment.classes)
        plan = plan_runs(arguments.methods, budgets, arguments.seeds)
        base = describe_base(Path(arguments.model))
        store = RunStore(folder / RUNS, depends_on(experiment, base["sha256"]))
        with stop_with_a_line(lambda: "the same command continues"):
            do_runs(experiment, plan, store, folder / _WORK)
        results = collect(experiment, plan, store, budgets, base)
        results["seconds"] = round(time.monotonic() - start, 1)
        write_report(results, folder)
    return results


def check_extra() -> None:
    missing = [name for name in ("sklearn", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise ImportError(
            f"expected scikit-learn and matplotlib, found no {' and no '.join(missing)}; pip install 'greffe[compare]'"
        )


def check_runs(arguments: CompareArguments) -> None:
    """Refuse, before any work, runs that cannot be meant; also where the model is yet to be made."""
    plan_runs(arguments.methods, arguments.labels, arguments.seeds)
    if not arguments.num_train_epochs > 0:
        raise ValueError(f"expected --num_train_epochs above 0, found {arguments.num_train_epochs}")
    for name in ("learning_rate", "frozen_learning_rate"):
        rates = getattr(arguments, name)
        if not rates or not all(rate > 0 for rate in rates):
            raise ValueError(f"expected --{name} above 0, one or more, found {rates}")


def prepare(arguments: CompareArguments) -> Experiment:
    """Read, check and tokenise the data, once for all runs."""
    data = read_parts(finetune_arguments(arguments, deduplicate=not arguments.keep_overlap))
    announce(str(data.report))
    if data.labels.task != "single_label":
        raise ValueError(f"expected one label for each text, found {data.labels.task}; pass --task single_label")
    tokenizer = load_tokenizer(arguments.model)
    options = finetune_arguments(arguments)
    rows = {name: make_rows(part, data.labels, tokenizer, options, name) for name, part in data.parts.items()}
    targets = {name: [int(row["labels"]) for row in part] for name, part in rows.items()}
    return Experiment(arguments, data, tokenizer, rows, targets)


def finetune_arguments(arguments: CompareArguments, **changes: Any) -> FinetuneArguments:
    """The options of one training of this comparison."""
    shared = {field.name: getattr(arguments, field.name) for field in fields(ClassifierOptions)}
    own = {"test": arguments.test, "output": arguments.output, "save_steps": -1}
    return FinetuneArguments(**{**shared, **own, **changes})


def depends_on(experiment: Experiment, model: str) -> dict[str, Any]:
    """All that the result of a run depends on, but for its own method, budget and seed."""
    digest = hashlib.sha256()
    for name, part in experiment.data.parts.items():
        ids = [row["input_ids"] for row in experiment.rows[name]]
        digest.update(json.dumps([name, part.texts, experiment.targets[name], ids]).encode())
    arguments = experiment.arguments
    settings = {name: value for name, value in asdict(arguments).items() if name not in _NOT_OF_A_RUN}
    return {
        "format": _RUN_FORMAT,
        "data": digest.hexdigest(),
        "labels": experiment.data.labels.names,
        "model": model,
        # The same weights are another model with other heads, another mask or another dropout.
        "config": json.loads((Path(arguments.model) / "config.json").read_text(encoding="utf-8")),
        "settings": {**settings, "bf16": resolve_bf16(arguments)},
        "versions": {**describe_versions(), **{name: version(name) for name in ("numpy", "scikit-learn")}},
    }


def resolve_bf16(arguments: CompareArguments) -> str:
    """`on` or `off`: on another machine `auto` is another computation."""
    if arguments.bf16 == "auto":
        return "on" if native_bf16() else "off"
    return arguments.bf16


def do_runs(experiment: Experiment, plan: list[Run], store: RunStore, work: Path) -> None:
    """Run what has no result yet, under one progress bar with the time left."""
    waiting = [run for run in plan if store.find(run) is None]
    stale = sum(map(store.is_stale, waiting))
    if len(waiting) < len(plan):
        announce(f"{len(plan) - len(waiting)} of {len(plan)} runs are finished and are not repeated")
    if stale:
        announce(f"{stale} runs of other data, settings or versions are repeated")
    costs = {run: estimate_cost(experiment, run) for run in waiting}
    shape = "{desc} {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
    with tqdm(total=sum(costs.values()), bar_format=shape) as bar:
        done = 0
        for number, run in enumerate(waiting, len(plan) - len(waiting) + 1):
            bar.set_description_str(f"run {number}/{len(plan)}: {run}")
            store.write(run, do_run(experiment, run, bar, work))
            done += costs[run]
            bar.update(done - bar.n)


def estimate_cost(experiment: Experiment, run: Run) -> int:
    """How long a run takes, in texts that go forward through the network: a text to learn from goes back too."""
    rows = len(sample_rows(experiment.data.parts["train"], run.budget, run.seed))
    if run.method in ("majority", "tfidf"):
        return max(1, rows // 100)
    arguments = experiment.arguments
    epoch = rows * passes(run) + len(experiment.rows["validation"])
    choices = len(learning_rates(arguments, run))
    if run.method == "frozen":  # the trunk reads each text once, for all of them
        return max(1, int(arguments.num_train_epochs * epoch * choices) // 20)
    return int(arguments.num_train_epochs * epoch * choices) + len(experiment.rows["test"])


def passes(run: Run) -> int:
    return 0 if run.method == "frozen" else 3


def learning_rates(arguments: CompareArguments, run: Run) -> list[float]:
    return arguments.frozen_learning_rate if run.method == "frozen" else arguments.learning_rate


def do_run(experiment: Experiment, run: Run, bar: Any, work: Path) -> dict[str, Any]:
    """One run from its sample of labels to its one look at the test set."""
    start = time.monotonic()
    parts, targets = experiment.data.parts, experiment.targets
    sample = sample_rows(parts["train"], run.budget, run.seed)
    sample_targets = [targets["train"][row] for row in sample]
    result: dict[str, Any] = {"epochs": [], "best_epoch": None, "chosen": {}, "rejected": []}
    if run.method == "majority":
        probabilities = predict_majority(sample_targets, experiment.classes, len(parts["test"]))
        accuracy = float(np.mean(np.asarray(targets["validation"]) == probabilities[0].argmax()))
    elif run.method == "tfidf":
        train = [parts["train"].texts[row] for row in sample], sample_targets
        validation = parts["validation"].texts, targets["validation"]
        probabilities, accuracy, strength = fit_tfidf(train, validation, parts["test"].texts, experiment.classes)
        result["chosen"] = {"C": strength}
    else:
        probabilities, accuracy, network = train_network(experiment, run, sample, bar, work)
        result |= network
    return {
        **asdict(run),
        "train_rows": len(sample),
        **result,
        "validation": {"accuracy": accuracy},
        "test": score(experiment, probabilities),
        "predictions": np.round(probabilities, 6).tolist(),
        "seconds": round(time.monotonic() - start, 2),
    }


def train_network(
    experiment: Experiment, run: Run, sample: list[int], bar: Any, work: Path
) -> tuple[np.ndarray, float, dict[str, Any]]:
    """Train with each learning rate, keep the one with the best epoch on validation, and look at the test set once."""
    rows = {**experiment.rows, "train": [experiment.rows["train"][row] for row in sample]}
    tried: list[dict[str, Any]] = []
    best: tuple[tuple[float, float], dict[str, Any], Any] | None = None
    for rate in learning_rates(experiment.arguments, run):
        try:
            trainer = train_once(experiment, run, rows, rate, bar, work)
        except FloatingPointError as error:  # of this rate: another one may learn
            announce(f"{run}: learning rate {rate:g} is left out: {error}")
            tried.append({"learning_rate": rate, "epochs": [], "diverged": str(error)})
            continue
        tried.append({"learning_rate": rate, "epochs": read_epochs(trainer)})
        chosen = max(tried[-1]["epochs"], key=lambda epoch: (epoch["accuracy"], -epoch["epoch"]))
        rank = chosen["accuracy"], -chosen["loss"]
        if trainer.classifier.ngrams is not None:  # which came after the epochs
            rank = judge(experiment, predict_logits(trainer, rows["validation"]))
        if best is None or rank > best[0]:
            best = rank, {**tried[-1], "best_epoch": chosen["epoch"]}, trainer
    if best is None:
        raise ValueError(explain_divergence(run, tried))
    (accuracy, _), kept, trainer = best
    rate = kept.pop("learning_rate")
    rejected = [trial for trial in tried if trial["learning_rate"] != rate]
    logits = torch.as_tensor(predict_logits(trainer, rows["test"]))
    probabilities = torch.softmax(logits.double(), dim=-1).numpy()
    return probabilities, accuracy, {**kept, "chosen": {"learning_rate": rate}, "rejected": rejected}


def judge(experiment: Experiment, logits: np.ndarray) -> tuple[float, float]:
    """Accuracy and mean log-likelihood on validation: of two, the higher is better."""
    scores, targets = torch.as_tensor(logits), torch.tensor(experiment.targets["validation"])
    loss = classification_loss(scores, targets, experiment.data.labels.problem_type)
    return float((scores.argmax(1) == targets).float().mean()), -float(loss)


def explain_divergence(run: Run, tried: list[dict[str, Any]]) -> str:
    option = "frozen_learning_rate" if run.method == "frozen" else "learning_rate"
    rates = ", ".join(f"{trial['learning_rate']:g}" for trial in tried)
    return (
        f"expected a learning rate that can be learned with ({run}), found a loss or gradients that are not finite "
        f"with {rates}; pass a lower --{option}"
    )


def train_once(experiment: Experiment, run: Run, rows: dict[str, Any], rate: float, bar: Any, work: Path) -> Any:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    arguments = experiment.arguments
    changes: dict[str, Any] = {"output": str(work), "seed": run.seed, "learning_rate": rate}
    changes["bf16"] = resolve_bf16(arguments)
    if run.method != "pretrained":  # what protects a trunk that has learned something is no help to the others
        changes |= {"lm_loss_weight": 0.0, "layerwise_lr_decay": 1.0, "gradual_unfreezing": False}
    if run.method == "frozen":  # what a linear head reads from the trunk, and nothing else
        changes["ngram_order"] = 0
    changes |= {"from_scratch": run.method == "scratch", "freeze": "trunk" if run.method == "frozen" else "none"}
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # what was loaded and what is new is the same in every run
    try:
        progress = RunProgress(bar, passes(run), 0 if run.method == "frozen" else len(rows["validation"]))
        return fit(
            finetune_arguments(arguments, **changes), experiment.data.labels, experiment.tokenizer, rows, work,
            progress=progress, remedy="the same command continues",
        )  # fmt: skip
    finally:
        logging.set_verbosity(verbosity)
        shutil.rmtree(work, ignore_errors=True)


class RunProgress(TrainerCallback):
    """Moves the bar of the whole comparison, in the unit of `estimate_cost`."""

    def __init__(self, bar: Any, passes: int, validation_rows: int):
        self.bar, self.passes, self.validation_rows = bar, passes, validation_rows

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar.update(self.passes * args.train_batch_size * args.gradient_accumulation_steps)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.bar.update(self.validation_rows)


def read_epochs(trainer: Any) -> list[dict[str, float]]:
    """Accuracy and loss on validation after each epoch. The last may be a part of one: 3 after 2.5 passes."""
    evaluations = [entry for entry in trainer.state.log_history if "eval_accuracy" in entry]
    return [
        {"epoch": number, "accuracy": entry["eval_accuracy"], "loss": entry["eval_loss"]}
        for number, entry in enumerate(evaluations, 1)
    ]


def score(experiment: Experiment, probabilities: np.ndarray) -> dict[str, Any]:
    """The metrics of the fine-tuning stage on the test set, and the mean negative log-likelihood."""
    labels, targets = experiment.data.labels, np.asarray(experiment.targets["test"])
    metrics = make_compute_metrics(labels.task, labels.id2label)(EvalPrediction(probabilities, targets))
    likelihood = probabilities[np.arange(len(targets)), targets]
    return {**metrics, "loss": float(-np.log(np.maximum(likelihood, 1e-12)).mean())}


def collect(
    experiment: Experiment, plan: list[Run], store: RunStore, budgets: list[str], base: dict[str, str]
) -> dict[str, Any]:
    """Everything that the report is made of."""
    arguments, test = experiment.arguments, experiment.data.parts["test"]
    return {
        "version": 1,
        "settings": asdict(arguments),
        "task": experiment.data.labels.task,
        "labels": list(experiment.data.labels.names),
        "data": describe_parts(experiment),
        "model": describe_model(arguments.model, base["sha256"], experiment.classes),
        "budgets": budgets,
        "seeds": list(range(arguments.seeds)),
        "methods": list(dict.fromkeys(run.method for run in plan)),
        "runs": [store.find(run) for run in plan],
        "test": {"texts": test.texts, "labels": experiment.targets["test"]},
        "machine": describe_machine(),
        "versions": describe_versions(),
    }


def describe_parts(experiment: Experiment) -> dict[str, Any]:
    """The files, what was used of them, and what the check for overlap found and removed."""
    parts, report = experiment.data.parts, experiment.data.report
    described: dict[str, Any] = {}
    for part in report.parts:
        used = parts[part.name]
        described[part.name] = {
            "file": Path(part.file).name,
            "sha256": fingerprint(Path(part.file)),
            "rows": part.rows,
            "used": len(used),
            "classes": count_labels(used),
        }
    removed = {name: described[name]["rows"] - described[name]["used"] for name in ("train", "validation")}
    leaks = [asdict(leak) for leak in report.leaks]  # before anything was removed
    described["overlap"] = {"removed": removed, "leaks": leaks, "description": str(report).splitlines()}
    return described


def fingerprint(path: Path) -> str:
    """The hash of a labelled file; where its labels are a file of their own, of both, one after the other."""
    pieces = ".review.spm"
    labels = [path.with_name(path.name.removesuffix(pieces) + ".label")] if path.name.endswith(pieces) else []
    return fingerprint_files([path, *labels])


def describe_model(folder: str, sha256: str, classes: int) -> dict[str, Any]:
    """Where the parameters of the classifier are, and how its trunk was pre-trained, as far as its folder tells."""
    counts = count_parameters(load_structure(folder, num_labels=classes))
    pretraining: dict[str, Any] | None = total_pretraining(Path(folder))
    if pretraining is not None:
        record = json.loads((Path(folder) / RECORD).read_text(encoding="utf-8"))
        pretraining |= {"metrics": record.get("metrics"), "corpus": record.get("datasets")}
    return {
        "path": Path(folder).name,
        "sha256": sha256,
        "parameters": {count.part: count.total for count in counts},
        "pretraining": pretraining,
    }


__all__ = ["compare"]
