"""What every Greffe tokenizer is: an ordinary fast tokenizer of transformers, with the settings that both stages need.

The settings are saved in `tokenizer_config.json`, so they hold in an environment without Greffe.

- **Beginning and end.** A text starts with the beginning token and does not end with the end token: a prompt that
  ended so would be finished before generation starts. Training documents do end with it: see `encode_documents`.
  (Setting `add_eos_token` on a loaded tokenizer is not the way: transformers does not save that it adds the
  beginning, and drops it.)
- **Control tokens in text.** A text that contains the characters `</s>` or `<mask>` is encoded as these characters.
  To write control tokens in a text, as a fill-mask prompt does, pass `split_special_tokens=False` to the call or to
  `from_pretrained`. The setting is transformers': `tokenizers.Tokenizer.from_file("tokenizer.json")` alone does not
  know it and takes them as control, until `encode_special_tokens = True` is set on it.
- **Padding** is on the right, for training and classification. A batch of prompts to generate from needs it on the
  left, beside the tokens to come: `tokenizer(prompts, padding=True, padding_side="left")`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

from .output_folder import write_folder

# What `truncation=True` cuts at. Greffe models have no maximum length: this bounds the memory that one long text takes.
MODEL_MAX_LENGTH = 512


def wrap_backend(
    backend: Tokenizer, special_tokens: Mapping[str, str | AddedToken], model_max_length: int = MODEL_MAX_LENGTH
) -> PreTrainedTokenizerFast:
    """A trained or imported tokenizer with Greffe's settings; `special_tokens` as `{"bos_token": "<s>", …}`."""
    check_max_length(model_max_length)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **special_tokens,
        add_bos_token=True,
        add_eos_token=False,
        split_special_tokens=True,
        padding_side="right",
        truncation_side="right",
        model_max_length=model_max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,  # it would remove the space of "Vraiment ?"
    )


def check_max_length(model_max_length: int) -> None:
    """Refuse a length that leaves no room for text after the beginning token."""
    if model_max_length < 2:
        raise ValueError(f"expected model_max_length of at least 2, found {model_max_length}")


def encode_documents(tokenizer: PreTrainedTokenizerFast, documents: Sequence[str]) -> list[list[int]]:
    """The ids of whole documents, as pre-training reads them: beginning token, text, end token; never cut.

    Control tokens spelt out in a document are text, whatever the tokenizer was loaded with.
    """
    if tokenizer.bos_token_id is None or tokenizer.eos_token_id is None:
        raise ValueError(
            "expected a tokenizer with a beginning and an end token, found "
            f"bos_token={tokenizer.bos_token!r} and eos_token={tokenizer.eos_token!r}"
        )
    for number, document in enumerate(documents):
        check_unicode(document, f"document {number}")
    if not documents:
        return []
    texts = tokenizer(
        list(documents),
        add_special_tokens=False,
        split_special_tokens=True,
        truncation=False,
        return_attention_mask=False,
        verbose=False,  # no warning about documents longer than model_max_length: packing cuts them
    )["input_ids"]
    return [[tokenizer.bos_token_id, *ids, tokenizer.eos_token_id] for ids in texts]


def check_unicode(text: str, name: str) -> None:
    """Refuse lone surrogates, halves of characters that Python holds but no encoding writes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"expected Unicode text, found a lone surrogate at character {error.start:,} of {name}; replace it, as in "
            'text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")'
        ) from error


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: str | os.PathLike[str]) -> None:
    """Write the tokenizer to a new or empty folder, whole or not at all."""
    write_folder(folder, tokenizer.save_pretrained)


def load_tokenizer(folder: str | os.PathLike[str]) -> PreTrainedTokenizerFast:
    """The tokenizer of a tokenizer's or model's folder. Nothing is looked for elsewhere, and no code is run."""
    if not Path(folder, "tokenizer.json").is_file():
        found = sorted(os.listdir(folder))[:8] if os.path.isdir(folder) else "no such folder"
        raise FileNotFoundError(
            f"expected tokenizer.json in {folder}, found {found}; make one with `greffe tokenizer train`"
        )
    return PreTrainedTokenizerFast.from_pretrained(folder)


__all__ = [
    "MODEL_MAX_LENGTH",
    "check_max_length",
    "check_unicode",
    "encode_documents",
    "load_tokenizer",
    "save_tokenizer",
    "wrap_backend",
]
