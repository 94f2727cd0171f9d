"""Convert a checkpoint of the reference experiment (a pickled state dict of torch.nn.TransformerEncoder) to Greffe.

The file may hold the whole language model or classifier, or the base alone. Only tensors are read from it, never
code. Sizes are inferred from the weights; the number of heads cannot be, and is 2 in the experiment.
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("checkpoint", metavar="CHECKPOINT", help="the .pt file")
    parser.add_argument("--output", required=True, metavar="DIR", help="the folder to write; new or empty")
    parser.add_argument("--num_attention_heads", type=int, default=2, metavar="N", help="default: 2, the experiment's")


def run(options: argparse.Namespace) -> None:
    from greffe.tokenization.output_folder import check_output_folder, write_folder

    check_output_folder(options.output)  # before the slow imports and the work
    from greffe.modeling.conversion import read_checkpoint

    model = read_checkpoint(options.checkpoint, options.num_attention_heads)
    write_folder(options.output, model.save_pretrained)
    print(f"{type(model).__name__} of {model.num_parameters():,} parameters written to {options.output}")
