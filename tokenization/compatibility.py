"""Whether a model and a tokenizer were made for each other, asked where they meet."""

from __future__ import annotations

from typing import Any

# Models may have more rows than the tokenizer has tokens: sizes are often rounded up, to multiples of 64 to 512, for
# speed. A larger gap means that the model was trained with another tokenizer.
LARGEST_PADDING = 511


def check_compatible(model: Any, tokenizer: Any) -> None:
    """Refuse a model (or its configuration) and a tokenizer that do not fit, naming both and every difference."""
    config = getattr(model, "config", model)
    size = max(tokenizer.get_vocab().values()) + 1
    differences = []
    if not size <= config.vocab_size <= size + LARGEST_PADDING:
        differences.append(f"vocab_size={config.vocab_size:,} beside {size:,} tokens")
    for name in ("bos_token_id", "pad_token_id", "eos_token_id"):
        wanted, found = getattr(config, name, None), getattr(tokenizer, name)
        if wanted is not None and found not in (wanted if isinstance(wanted, list) else [wanted]):
            differences.append(f"{name}={wanted} beside {found}")
    if differences:
        raise ValueError(
            f"expected a tokenizer that fits the model, found {_name(config, model)} with {'; '.join(differences)} in "
            f"{_name(tokenizer, tokenizer)}; use the tokenizer saved in the model's folder, or start a new model with "
            f"vocab_size={size}, bos_token_id={tokenizer.bos_token_id}, pad_token_id={tokenizer.pad_token_id}, "
            f"eos_token_id={tokenizer.eos_token_id}"
        )


def _name(holder: Any, thing: Any) -> str:
    kind, path = type(thing).__name__, getattr(holder, "name_or_path", "")
    return f"{kind} {path}" if path else f"a {kind}"


__all__ = ["LARGEST_PADDING", "check_compatible"]
