"""Fine-tune a classifier with plain `Trainer`: `python finetune_with_trainer.py MODEL TRAIN TEST OUTPUT [--epochs 5]`.

TRAIN and TEST are csv, jsonl or parquet files with the columns `text` and `label`. `greffe finetune` does the same and
more: it looks for leaks, splits off validation, keeps the best epoch and survives being killed.
"""

import argparse

from greffe.modeling import GreffeForSequenceClassification
from greffe.tokenization import load_tokenizer
from greffe.train.labelled_data import read_labelled
from greffe.train.labels import collect_labels, encode_labels
from greffe.train.metrics import make_compute_metrics
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments, set_seed

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
for name in ("model", "train", "test", "output"):
    parser.add_argument(name)
parser.add_argument("--epochs", type=int, default=5)
options = parser.parse_args()

set_seed(0)
tokenizer = load_tokenizer(options.model)
train, test = read_labelled(options.train), read_labelled(options.test)
labels = collect_labels(train)


def make_rows(data):
    encoded = tokenizer(data.texts, truncation=True, max_length=256)["input_ids"]
    return [{"input_ids": ids, "labels": y} for ids, y in zip(encoded, encode_labels(data, labels), strict=True)]


# The trunk comes from the language model; the head is new, and the load report says so.
model = GreffeForSequenceClassification.from_pretrained(
    options.model, id2label=labels.id2label, label2id=labels.label2id, classifier_pooling="mean"
)
arguments = TrainingArguments(
    output_dir=options.output,
    num_train_epochs=options.epochs,
    per_device_train_batch_size=16,
    learning_rate=5e-4,
    warmup_steps=0.1,
    train_sampling_strategy="group_by_length",
    eval_strategy="epoch",
    save_strategy="no",
    report_to="none",
)
metrics = make_compute_metrics(labels.task, labels.id2label, detailed=False)
collator = DataCollatorWithPadding(tokenizer)
trainer = Trainer(
    model, arguments, collator, make_rows(train), make_rows(test), processing_class=tokenizer, compute_metrics=metrics
)
trainer.train()
trainer.save_model(options.output)
print(f"test accuracy {trainer.evaluate()['eval_accuracy']:.1%}; model and tokenizer in {options.output}")
