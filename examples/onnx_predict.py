"""Classify texts with an exported classifier, by onnxruntime and tokenizers alone: `python onnx_predict.py DIR TEXT…`.

Each line has the label, those of several labels that hold, or the number of a regression; then the text.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder, *texts = sys.argv[1:]
settings = json.loads(Path(folder, "onnx.json").read_text(encoding="utf-8"))
first, last = settings["keep_first"], settings["keep_last"]  # what a text that is too long keeps of its ends
tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
tokenizer.encode_special_tokens = True  # `</s>` in a text is only these characters
session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
for text in texts:
    ids = tokenizer.encode(text).ids
    ids = np.array([ids if len(ids) <= first + last else ids[:first] + ids[len(ids) - last :]])
    ((logits,),) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
    held = logits == logits.max() if settings["task"] == "single_label" else logits > 0
    answer = logits if settings["task"] == "regression" else np.array(settings["labels"])[held]
    print(*answer, text, sep="\t")
