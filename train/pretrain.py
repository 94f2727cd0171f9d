"""Stage one: a language model from plain text. `greffe pretrain`, or `pretrain(PretrainArguments(…))`.

Runs on several processes with `torchrun --nproc_per_node 2 -m greffe.train.pretrain …`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from greffe.hub import resolve_model
from greffe.modeling import GreffeConfig, GreffeForCausalLM, GreffeForMaskedLM
from greffe.modeling.parameters import load_model, read_config
from greffe.tokenization import check_compatible, load_tokenizer, read_corpus, save_tokenizer, train_tokenizer
from greffe.tokenization.corpus import is_hub_name
from transformers import TrainingArguments, set_seed

from .arguments import PretrainArguments
from .muon import make_muon
from .objectives import RowCollator, hybrid_loss, language_metrics, sum_nats
from .packing import DocumentRows, PackedRows, TokenizedCorpus, cut_documents, tokenize_corpus
from .run_folder import (
    RECORD,
    SETTINGS,
    TOKENIZER,
    describe_base,
    describe_machine,
    keep_inputs,
    total_pretraining,
    write_model,
)
from .spectral import start_embeddings
from .stage_trainer import (
    StageTrainer,
    add_callbacks,
    announce,
    check_stage_arguments,
    common_training_arguments,
    find_finished,
    hold_run,
    start_processes,
    train,
)
from .streaming import StreamedRows, stream_corpus

# The steps of a streamed run that ends by the clock: more than there will be.
_NO_LAST_STEP = 10**9
_SIZES = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
_DROPOUTS = ("hidden_dropout", "attention_dropout")


def pretrain(arguments: PretrainArguments, remedy: str | None = None) -> dict[str, Any]:
    """Train a language model on a corpus and leave it in `arguments.output`; returns the record of the run.

    `remedy` is what to do after a signal, where that is not `--resume`.
    """
    if arguments.model is not None:
        arguments = replace(arguments, model=str(resolve_model(arguments.model)))
    finished = find_finished(arguments)
    if finished is not None:
        return finished
    check_arguments(arguments)
    process = start_processes()
    with hold_run(arguments, process, remedy) as folder:
        corpus = read_corpus(
            arguments.corpus,
            text_column=arguments.text_column,
            separator=arguments.separator,
            errors=arguments.errors,
        )
        with process.main_process_first():  # the others find the tokenizer and the cache
            tokenizer = prepare_tokenizer(arguments, corpus, folder)
            tokenize = stream_corpus if arguments.streaming else tokenize_corpus
            documents = tokenize(corpus, tokenizer, arguments.validation_fraction, arguments.seed)
        if process.is_main_process:
            keep_inputs(folder, {"corpus": documents.fingerprint}, process.num_processes)
        set_seed(arguments.seed)
        model = prepare_model(arguments, tokenizer)
        if arguments.model is None and arguments.embeddings == "spectral":
            known = start_embeddings(
                model.get_input_embeddings(), read_ids(documents), tokenizer.all_special_ids, arguments.seed
            )
            announce(f"{known:,} embeddings start from what stands together in the documents")
        use_cache = model.config.use_cache
        trainer = make_trainer(arguments, model, tokenizer, documents, folder)  # which switches the cache off
        train(trainer, arguments.resume, remedy)
        model.config.use_cache = use_cache
        return finish(trainer, arguments, documents, folder)


def pretrain_once(arguments: PretrainArguments) -> dict[str, Any]:
    """The record of a pre-training with these options: the finished one, or one that is started or gone on with."""
    folder = Path(arguments.output)
    if not (folder / RECORD).is_file():
        return pretrain(replace(arguments, resume=(folder / SETTINGS).is_file()), "the same command continues")
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    if {**record["arguments"], "resume": False} != json.loads(json.dumps(asdict(arguments))):
        raise FileExistsError(
            f"expected a model of the same options in {folder}, found others; choose another --output"
        )
    announce(f"{folder} is there already")
    return dict(record)


def check_arguments(arguments: PretrainArguments) -> None:
    """Refuse, before any work, values that cannot be meant."""
    check_stage_arguments(arguments)
    if arguments.early_stopping_patience is not None and not arguments.validation_fraction:
        raise ValueError("expected --validation_fraction above 0 with --early_stopping_patience, found 0")
    for name in ("mask_probability", "masked_share", "validation_fraction"):
        if not 0 <= getattr(arguments, name) < 1:
            raise ValueError(f"expected --{name} in [0, 1), found {getattr(arguments, name)}")
    if arguments.objective != "causal" and not arguments.mask_probability:
        raise ValueError(f"expected --mask_probability above 0 with --objective {arguments.objective}, found 0")
    for name in ("block_size", "shuffle_buffer", "eval_steps", "save_steps"):
        if getattr(arguments, name) < (2 if name == "block_size" else 1):
            raise ValueError(
                f"expected --{name} above {1 if name == 'block_size' else 0}, found {getattr(arguments, name)}"
            )
    if arguments.streaming and arguments.max_steps <= 0 and arguments.max_minutes is None:
        raise ValueError(
            "expected --max_steps or --max_minutes with --streaming, found neither; pass one, since nobody knows how "
            "long the corpus is before it is read"
        )
    if arguments.cross_document_attention and not arguments.packing:
        raise ValueError(
            "expected packed rows with --cross_document_attention, found --no_packing: no row has two documents"
        )
    for name in ("tokenizer", "model"):
        if arguments.tokenizer_lowercase and getattr(arguments, name) is not None:
            raise ValueError(
                f"expected --{name} or --tokenizer_lowercase, found both: a tokenizer that is given stays as it is"
            )
    check_sizes(arguments)


def check_sizes(arguments: PretrainArguments) -> None:
    """Refuse a model that cannot be built, or sizes of one that is given."""
    options = chosen(arguments, _SIZES)
    if arguments.model is None:
        GreffeConfig.from_preset(arguments.preset, **options, **chosen(arguments, _DROPOUTS))
        return
    if options:
        raise ValueError(f"expected --model or sizes, found --model {arguments.model} with {sorted(options)}")
    read_config(arguments.model)


def chosen(arguments: PretrainArguments, names: Sequence[str]) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}


def prepare_tokenizer(arguments: PretrainArguments, corpus: Any, folder: Path) -> Any:
    """The given one, the model's own, the one of this run so far, or a new one learned from the corpus."""
    if arguments.tokenizer is not None:
        return load_tokenizer(arguments.tokenizer)
    if arguments.model is not None:
        return load_tokenizer(arguments.model)
    own = folder / TOKENIZER
    if not own.is_dir():
        announce(f"learning a tokenizer of {arguments.tokenizer_vocab_size:,} tokens")
        learned = train_tokenizer(
            corpus, arguments.tokenizer_vocab_size, lowercase=arguments.tokenizer_lowercase, progress=True
        )
        save_tokenizer(learned, own)
    return load_tokenizer(own)


def prepare_model(arguments: PretrainArguments, tokenizer: Any) -> Any:
    """The given model, or a new one of the preset's and the flags' sizes, for this tokenizer."""
    model_class = GreffeForMaskedLM if arguments.objective == "masked" else GreffeForCausalLM
    options = chosen(arguments, _DROPOUTS)
    if arguments.objective == "hybrid":
        options["shifted_masks"] = True
    if arguments.model is None:
        special = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("bos", "pad", "eos")}
        sizes = {"vocab_size": len(tokenizer), **special, **chosen(arguments, _SIZES)}
        model = model_class(GreffeConfig.from_preset(arguments.preset, **sizes, **options))
    else:
        model = load_model(model_class, arguments.model, **options)
    check_compatible(model, tokenizer)
    return model


def read_ids(documents: TokenizedCorpus) -> Iterator[Sequence[int]]:
    """The ids of each training document, from the disk or from the stream."""
    if callable(documents.train):
        return (document["input_ids"] for document in documents.train())
    return (ids for batch in documents.train.iter(batch_size=1000) for ids in batch["input_ids"])


class PretrainTrainer(StageTrainer):
    """Adds the hybrid loss, and an evaluation by documents with a sample of text."""

    arguments: PretrainArguments

    def __init__(self, *positional: Any, arguments: PretrainArguments, documents: TokenizedCorpus, **keywords: Any):
        super().__init__(*positional, arguments=arguments, **keywords)
        self.validation_rows = list(cut_documents(documents.validation["input_ids"], arguments.block_size))
        self.validation_bytes = sum(documents.validation["bytes"])

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        if "masked_rows" not in inputs:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        loss = hybrid_loss(model, inputs, num_items_in_batch)
        if num_items_in_batch is not None and self.args.average_tokens_across_devices:
            loss = loss * self.accelerator.num_processes  # gradients are averaged over the processes
        return loss

    def create_optimizer(self, model: Any = None) -> Any:
        if self.arguments.optimizer == "adamw" or self.optimizer is not None:
            return super().create_optimizer(model)
        decayed = set(self.get_decay_parameter_names(self.model))
        self.optimizer = make_muon(self.model, decayed, self.args.learning_rate, self.args.weight_decay)
        return self.optimizer

    def evaluate(self, *_: Any, metric_key_prefix: str = "eval", **__: Any) -> dict[str, float]:
        metrics = {f"{metric_key_prefix}_{name}": value for name, value in self.measure().items()}
        self.log(metrics)
        if self.arguments.objective != "masked" and self.is_world_process_zero():
            announce(f"step {self.state.global_step} writes: {self.write_sample()}")
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def write_sample(self, length: int = 40) -> str:
        """What the model writes after the prompt. The draw is the same each time, and disturbs no other one."""
        model = self.accelerator.unwrap_model(self.model)
        prompt = self.processing_class(self.arguments.sample_prompt, return_tensors="pt").to(model.device)
        was_training = model.training
        with torch.random.fork_rng():
            torch.manual_seed(self.arguments.seed)
            text = model.eval().generate(**prompt, do_sample=True, top_k=50, max_new_tokens=length, use_cache=True)
        model.train(was_training)
        return repr(self.processing_class.decode(text[0], skip_special_tokens=True))

    def measure(self) -> dict[str, float]:
        """Loss, perplexity and bits per byte on the validation documents, each process taking its share."""
        if not self.validation_rows:
            return {}
        model = self.accelerator.unwrap_model(self.model)
        was_training = model.training
        model.eval()
        measured: dict[str, float] = {}
        with self.autocast_smart_context_manager():
            if self.arguments.objective != "masked":
                measured |= language_metrics(*self._sum(model, None), self.validation_bytes)
            if self.arguments.objective != "causal":
                nats, tokens = self._sum(model, self.data_collator)
                name = "masked_loss" if measured else "loss"
                measured[name] = nats / max(tokens, 1)
        model.train(was_training)
        return measured

    def _sum(self, model: Any, masks: Any) -> tuple[float, int]:
        size, pad = self.args.per_device_eval_batch_size, model.config.pad_token_id
        share = self.accelerator.process_index, self.accelerator.num_processes
        sums = sum_nats(model, self.validation_rows, size, pad, masks, share)
        nats, tokens = self.accelerator.reduce(torch.tensor(sums, dtype=torch.float64)).tolist()
        return nats, int(tokens)


def make_trainer(
    arguments: PretrainArguments, model: Any, tokenizer: Any, documents: TokenizedCorpus, folder: Path
) -> PretrainTrainer:
    options = training_arguments(arguments, folder, evaluate=len(documents.validation) > 0)
    rows = make_rows(arguments, documents, options)
    announce(f"{rows}; {len(documents.validation):,} documents for validation")
    collator = RowCollator(
        objective=arguments.objective,
        mask_probability=arguments.mask_probability,
        masked_share=arguments.masked_share,
        cross_document_attention=arguments.cross_document_attention,
        bos_token_id=tokenizer.bos_token_id,
        mask_token_id=-1 if tokenizer.mask_token_id is None else tokenizer.mask_token_id,
        special_ids=tuple(tokenizer.all_special_ids),
        vocab_size=len(tokenizer),
        seed=arguments.seed,
        pad_token_id=None if arguments.packing else tokenizer.pad_token_id,
    )
    if arguments.objective != "causal" and tokenizer.mask_token_id is None:
        raise ValueError(f"expected a tokenizer with a mask token for --objective {arguments.objective}, found none")
    if not arguments.packing and tokenizer.pad_token_id is None:
        raise ValueError("expected a tokenizer with a padding token for --no_packing, found none")
    trainer = PretrainTrainer(
        model, options, data_collator=collator, train_dataset=rows, arguments=arguments, documents=documents,
        eval_dataset=rows, processing_class=tokenizer,
    )  # fmt: skip
    add_callbacks(trainer, arguments, ("tokens", rows.tokens_per_row) if rows.tokens_per_row else ("rows", 1))
    return trainer


def make_rows(
    arguments: PretrainArguments, documents: TokenizedCorpus, options: TrainingArguments
) -> PackedRows | DocumentRows | StreamedRows:
    if not arguments.streaming:
        return (PackedRows if arguments.packing else DocumentRows)(documents.train, arguments.block_size)
    rows_a_step = options.train_batch_size * options.gradient_accumulation_steps * options.world_size
    return StreamedRows(
        documents.train,
        arguments.block_size,
        length=rows_a_step * (arguments.max_steps if arguments.max_steps > 0 else _NO_LAST_STEP),
        packing=arguments.packing,
        buffer_size=arguments.shuffle_buffer,
        seed=arguments.seed,
    )


def training_arguments(arguments: PretrainArguments, folder: Path, evaluate: bool) -> TrainingArguments:
    """The options of `Trainer` for this stage."""
    timed = arguments.max_minutes is not None
    epochs = 10_000 if timed and arguments.max_steps <= 0 else arguments.num_train_epochs
    return TrainingArguments(
        **common_training_arguments(arguments, folder),
        num_train_epochs=1 if arguments.streaming else epochs,  # to the library, a stream is one epoch
        # Each process reads the whole stream and takes its rows: batches that one sends to all must be of one length.
        accelerator_config={"dispatch_batches": False},
        include_num_input_tokens_seen="all" if arguments.packing else "non_padding",
        eval_strategy="steps" if evaluate else "no",
        eval_steps=arguments.eval_steps,
        save_strategy="steps",
        save_steps=arguments.save_steps,
        logging_steps=50,
        metric_for_best_model="loss",
        greater_is_better=False,
    )


def finish(
    trainer: PretrainTrainer, arguments: PretrainArguments, documents: TokenizedCorpus, folder: Path
) -> dict[str, Any]:
    """Evaluate once more, and write the model and its record."""
    record = {
        "stage": "pretrain",
        "arguments": asdict(arguments),
        "data": {
            "fingerprint": documents.fingerprint,
            "documents": trainer.train_dataset.documents,
            "validation_documents": len(documents.validation),
            "tokens": trainer.train_dataset.total_tokens,
            "dropped_tokens": trainer.train_dataset.dropped_tokens,
        },
        "datasets": [path if is_hub_name(path) else Path(path).name for path in arguments.corpus],
        "base_model": None if arguments.model is None else continue_from(Path(arguments.model)),
        "steps": trainer.state.global_step,
        "tokens_seen": trainer.state.num_input_tokens_seen,
        "seconds": round(trainer.seconds, 1),
        "evaluations": read_evaluations(trainer),
        "metrics": trainer.measure(),
        "machine": describe_machine(),
    }
    if trainer.is_world_process_zero():
        write_model(folder, trainer.model, trainer.processing_class, record)
    trainer.accelerator.wait_for_everyone()
    return record


def continue_from(base: Path) -> dict[str, Any]:
    """A pointer to the model that was continued, and what went into it."""
    return {**describe_base(base), "pretraining": total_pretraining(base)}


def read_evaluations(trainer: PretrainTrainer) -> list[dict[str, float]]:
    """What each evaluation measured, with its step."""
    return [
        {name.removeprefix("eval_"): value for name, value in entry.items() if name == "step" or name[:5] == "eval_"}
        for entry in trainer.state.log_history
        if "eval_loss" in entry
    ]


def main(argv: Sequence[str] | None = None) -> int:
    from .cli import main as command_line

    return command_line(["pretrain", *(sys.argv[1:] if argv is None else argv)])


if __name__ == "__main__":
    raise SystemExit(main())
