"""What a Greffe model is made of: its sizes, its few options, and the checks that keep them consistent."""

# No `from __future__ import annotations` here: the types are checked at run time, which strings would switch off.

from dataclasses import field, fields
from typing import Any, ClassVar, Literal

from huggingface_hub.dataclasses import strict
from transformers.configuration_utils import PreTrainedConfig
from transformers.generation import GenerationConfig

# Where `trust_remote_code=True` finds each class in a saved folder. Every head is listed whatever the head that was
# saved, so that a folder can change heads in an environment without Greffe.
AUTO_MAP = {
    "AutoConfig": "configuration_greffe.GreffeConfig",
    "AutoModel": "modeling_greffe.GreffeModel",
    "AutoModelForCausalLM": "modeling_greffe.GreffeForCausalLM",
    "AutoModelForMaskedLM": "modeling_greffe.GreffeForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_greffe.GreffeForSequenceClassification",
}

# Named starting points: what differs from the defaults below.
PRESETS: dict[str, dict[str, Any]] = {
    # The reference experiment, exactly.
    "lab": {},
    # The default for pre-training on a laptop: 5.3 M parameters with an 8k vocabulary, embeddings included.
    "small": {
        "vocab_size": 8192,
        "hidden_size": 256,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 1024,
        "hidden_act": "gelu",
        "norm_first": True,
        "position_embedding_type": "rotary",
        "tie_word_embeddings": True,
    },
}

# Not fields of the configuration, but transformers passes them to the constructor or writes them to config.json.
# Every other unknown keyword is a typing mistake: the library would store it silently and use the default instead.
_KEYWORDS_OF_TRANSFORMERS = {
    *("model_type", "name_or_path", "_name_or_path", "_commit_hash", "torch_dtype"),
    *("num_labels", "output_attentions", "tie_last_hidden_states", "per_layer_config"),
    *("attn_implementation", "experts_implementation", "quantization_config", "custom_pipelines"),
    *GenerationConfig._get_default_generation_params(),
}


@strict
class GreffeConfig(PreTrainedConfig):
    """The configuration of every Greffe model; the defaults are those of the reference experiment.

    ```python
    >>> GreffeConfig()                              # the experiment: 4 post-norm layers of 200, 50,001 tokens
    >>> GreffeConfig.from_preset("small")           # the default for pre-training on a laptop
    >>> GreffeConfig.from_preset("small", vocab_size=16_000, num_hidden_layers=6)
    ```
    """

    model_type = "greffe"
    keys_to_ignore_at_inference: ClassVar[list[str]] = ["past_key_values"]

    vocab_size: int = 50_001
    hidden_size: int = 200
    num_hidden_layers: int = 4
    num_attention_heads: int = 2
    # Width of the feed-forward; None means `hidden_size`, as in the experiment (the usual choice is 4 times that).
    intermediate_size: int | None = None
    # Activation of the feed-forward: a name that transformers knows ("relu", "gelu", "silu", …).
    hidden_act: str = "relu"
    # False: norms after each residual sum, as in the experiment. True: norms before each block and one at the end,
    # which trains more stably.
    norm_first: bool = False
    layer_norm_eps: float = 1e-5
    # "sinusoidal": fixed sinusoids added to the embeddings. "rotary": queries and keys rotated by their position.
    # Neither has parameters or a maximum length.
    position_embedding_type: Literal["sinusoidal", "rotary"] = "sinusoidal"
    # True: the square mask, a position sees itself and what precedes it. False: both directions are visible.
    # GreffeForCausalLM sets it to True in its own copy, GreffeForMaskedLM to False; a classifier can be either.
    is_causal: bool = True
    # True for a model whose masked tokens are predicted from the position before, like the next token of a causal
    # model: hybrid pre-training sets it, and GreffeForMaskedLM reads it.
    shifted_masks: bool = False
    # Share the embedding matrix with the language-modelling head (its bias stays its own).
    tie_word_embeddings: bool = False
    # Dropout of the embeddings, of each block's output and inside the feed-forward; none in the experiment.
    hidden_dropout: float | int = 0.0
    attention_dropout: float | int = 0.0
    # Dropout of the pooled vector before the sequence classifier.
    classifier_dropout: float | int = 0.0
    # What the sequence classifier reads: the vector of the last real token, the mean over the real tokens, or the means
    # of what enters the first layer and of what leaves each one, side by side: layers know different things.
    classifier_pooling: Literal["last", "mean", "layers"] = "last"
    # A linear classifier of the text's words and runs of up to so many, beside the trunk (`ngrams.py`); 0: none.
    ngram_order: int = 0
    # How many weights that one has for each label: n-grams are told apart by a hash.
    ngram_buckets: int = 2**18
    # Embeddings and heads are drawn from uniform(-initializer_range, initializer_range).
    initializer_range: float = 0.1
    use_cache: bool = True
    bos_token_id: int | None = 0
    pad_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    auto_map: dict[str, Any] | None = field(default_factory=lambda: dict(AUTO_MAP))

    def __post_init__(self, **kwargs: Any) -> None:
        self._refuse_unknown(kwargs)
        if self.intermediate_size is None:
            self.intermediate_size = self.hidden_size
        super().__post_init__(**kwargs)

    @classmethod
    def from_preset(cls, name: str, **overrides: Any) -> "GreffeConfig":
        """A named starting point, with some of its values replaced."""
        if name not in PRESETS:
            raise ValueError(f"expected a preset among {sorted(PRESETS)}, found {name!r}")
        return cls(**{**PRESETS[name], **overrides})

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """As in transformers, but keywords that are not options are refused, and the result is checked.

        Attributes that someone set on a configuration before saving it come back as they were.
        """
        return_unused = kwargs.pop("return_unused_kwargs", False)
        extra = {key: value for key, value in config_dict.items() if key in cls._unknown(config_dict)}
        options = {key: value for key, value in config_dict.items() if key not in extra}
        config, unused = super().from_dict(options, return_unused_kwargs=True, **kwargs)
        for key, value in extra.items():
            setattr(config, key, value)
        config.validate()  # the library checks at construction only, before `kwargs` are applied
        if return_unused:
            return config, unused
        cls._refuse_unknown(unused)
        return config

    @classmethod
    def _unknown(cls, keywords: dict[str, Any]) -> list[str]:
        return sorted(set(keywords) - {f.name for f in fields(cls)} - _KEYWORDS_OF_TRANSFORMERS)

    @classmethod
    def _refuse_unknown(cls, keywords: dict[str, Any]) -> None:
        unknown = cls._unknown(keywords)
        if unknown:
            known = sorted(f.name for f in fields(cls) if f.name not in _INHERITED_FIELDS)
            raise ValueError(f"expected options of {cls.__name__} among {known}, found {unknown}")

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads

    def validate_architecture(self) -> None:
        """Refuse combinations that cannot be built, quoting both values (run at construction and when saving)."""
        super().validate_architecture()
        for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, found {getattr(self, name)}")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"expected hidden_size to be a multiple of num_attention_heads, found hidden_size={self.hidden_size} "
                f"and num_attention_heads={self.num_attention_heads}"
            )
        if self.position_embedding_type == "rotary" and self.head_dim % 2:
            raise ValueError(
                "expected an even hidden_size / num_attention_heads with position_embedding_type='rotary', found "
                f"hidden_size={self.hidden_size} and num_attention_heads={self.num_attention_heads}"
            )
        if self.position_embedding_type == "sinusoidal" and self.hidden_size % 2:
            raise ValueError(
                "expected an even hidden_size with position_embedding_type='sinusoidal', found "
                f"hidden_size={self.hidden_size}"
            )
        for name in ("hidden_dropout", "attention_dropout", "classifier_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"expected {name} in [0, 1), found {getattr(self, name)}")
        if self.ngram_order < 0 or self.ngram_buckets < 1:
            raise ValueError(
                f"expected ngram_order of at least 0 and ngram_buckets of at least 1, found {self.ngram_order} and "
                f"{self.ngram_buckets}"
            )
        self._validate_activation()

    def validate_token_ids(self) -> None:
        """Special tokens must be in the vocabulary: an id outside would only fail at the first padded batch."""
        for name in ("bos_token_id", "pad_token_id", "eos_token_id"):
            value = getattr(self, name)
            for token_id in value if isinstance(value, list) else [value]:
                if token_id is not None and not 0 <= token_id < self.vocab_size:
                    raise ValueError(
                        f"expected {name} in the vocabulary (below vocab_size={self.vocab_size}), found {token_id}"
                    )

    def _validate_activation(self) -> None:
        from transformers.activations import ACT2FN

        if self.hidden_act not in ACT2FN:
            raise ValueError(f"expected hidden_act among {sorted(ACT2FN)}, found {self.hidden_act!r}")


_INHERITED_FIELDS = {f.name for f in fields(PreTrainedConfig)} | {"auto_map"}

__all__ = ["PRESETS", "GreffeConfig"]
