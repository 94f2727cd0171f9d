"""Print where the parameters of a model are, with totals, for a saved folder, a preset, or sizes given as flags.

Without --num_labels (and for a folder, without a saved classifier) the head is the language model's.
"""

from __future__ import annotations

import argparse

SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", metavar="MODEL", help="a folder, or organisation/name[@rev] in the local hub")
    source.add_argument("--preset", default="lab", help="a named configuration: lab (default) or small")
    parser.add_argument("--num_labels", type=int, metavar="N", help="count a classifier of N labels")
    for size in SIZES:
        parser.add_argument(f"--{size}", type=int, metavar="N", help="in place of the preset's")
    parser.add_argument(
        "--tie_word_embeddings",
        action=argparse.BooleanOptionalAction,
        help="share the embedding matrix with the language-modelling head",
    )
    parser.add_argument("--freeze_trunk", action="store_true", help="count the trunk as frozen, the head as trainable")


def run(options: argparse.Namespace) -> None:
    from greffe.hub import resolve_model
    from greffe.modeling.parameters import count_parameters, format_parameters, load_structure

    flags = {name: getattr(options, name) for name in (*SIZES, "tie_word_embeddings")}
    overrides = {name: value for name, value in flags.items() if value is not None}
    if options.model is not None and overrides:
        raise ValueError(f"expected --model or sizes, found --model {options.model} with {sorted(overrides)}")
    folder = None if options.model is None else str(resolve_model(options.model))
    model = load_structure(folder, options.preset, options.num_labels, overrides)
    if options.freeze_trunk:
        model.base_model.requires_grad_(False)
    print(format_parameters(type(model).__name__, count_parameters(model)))
