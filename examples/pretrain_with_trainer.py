"""Pre-train a language model with plain `Trainer`: `python pretrain_with_trainer.py CORPUS OUTPUT [--steps 1000]`.

`greffe pretrain` does the same and more: it caches, evaluates in bits per byte, keeps documents apart and survives
being killed.
"""

import argparse
from itertools import chain

import torch
from greffe.modeling import GreffeConfig, GreffeForCausalLM
from greffe.tokenization import encode_documents, read_corpus, train_tokenizer
from transformers import Trainer, TrainingArguments, set_seed

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("corpus", help="a text file, a document a line; also jsonl, csv, parquet, compressed, a folder")
parser.add_argument("output", help="the folder for the model")
parser.add_argument("--steps", type=int, default=1000)
parser.add_argument("--vocab_size", type=int, default=8192)
parser.add_argument("--block_size", type=int, default=256)
options = parser.parse_args()

set_seed(0)
corpus = read_corpus(options.corpus)
tokenizer = train_tokenizer(corpus, options.vocab_size)

# Documents one after the other, cut into rows of equal length: nothing is padding.
tokens = torch.tensor(list(chain.from_iterable(encode_documents(tokenizer, list(corpus)))))
rows = tokens[: len(tokens) // options.block_size * options.block_size].view(-1, options.block_size)
dataset = [{"input_ids": row, "labels": row} for row in rows]

model = GreffeForCausalLM(GreffeConfig.from_preset("small", vocab_size=len(tokenizer)))
arguments = TrainingArguments(
    output_dir=options.output,
    max_steps=options.steps,
    per_device_train_batch_size=16,
    learning_rate=1e-3,
    lr_scheduler_type="cosine",
    warmup_steps=0.05,
    weight_decay=0.1,
    logging_steps=50,
    save_strategy="no",
    report_to="none",
)
trainer = Trainer(model, arguments, train_dataset=dataset, processing_class=tokenizer)
trainer.train()
model.config.use_cache = True  # Trainer switches it off; generation wants it
trainer.save_model(options.output)
print(f"model and tokenizer in {options.output}")
