"""The causal Transformer of Greffe: one trunk and the heads that are grafted onto it.

From top to bottom: attention, feed-forward, layer, trunk (`GreffeModel`), and the three heads; `attention.py` has what
attention computes. Shapes are written as B (batch), T (tokens), d (hidden_size), nh (heads), hd (hidden_size / heads),
V (vocabulary), C (labels).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.cache_utils import Cache, DynamicCache
from transformers.generation import GenerationMixin
from transformers.masking_utils import (
    create_bidirectional_mask,
    create_causal_mask,
    find_packed_sequence_indices,
    packed_sequence_mask_function,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import (
    BaseModelOutputWithPast,
    CausalLMOutputWithPast,
    MaskedLMOutput,
    SequenceClassifierOutputWithPast,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import can_return_tuple, logging
from transformers.utils.generic import merge_with_config_defaults
from transformers.utils.import_utils import is_tracing
from transformers.utils.output_capturing import capture_outputs

from .attention import (
    eager_attention_forward,
    is_faster_as_products,
    product_attention_forward,
    rotary_waves,
    rotate,
    sinusoidal_embedding,
)
from .cache import leave_room
from .configuration_greffe import GreffeConfig
from .load_report import MismatchError, describe_loading
from .loss import classification_loss
from .ngrams import NgramPath
from .vocabulary_head import loss_and_logits

# The library's own logger of load reports: what silences or records its reports does so with ours.
logger = logging.get_logger("transformers.modeling_utils")


def linear(inputs: int, outputs: int, weight_bound: float, bias_bound: float = 0.0) -> nn.Linear:
    """A linear layer with the bounds of its uniform initial values, which `_init_weights` reads."""
    layer = nn.Linear(inputs, outputs)
    layer.init_bounds = (weight_bound, bias_bound)  # type: ignore[assignment]
    return layer


def drop(dropout: nn.Dropout, states: Tensor) -> Tensor:
    """Dropout where it does something: in generation, calls of modules are a part of the time."""
    return dropout(states) if dropout.p and dropout.training else states


class GreffeAttention(nn.Module):
    def __init__(self, config: GreffeConfig, layer_idx: int):
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim
        self.scaling = self.head_dim**-0.5
        self.is_causal = config.is_causal
        # One matrix for queries, keys and values: one product instead of three.
        width = config.hidden_size
        self.qkv_proj = linear(width, 3 * width, weight_bound=(1.5 / width) ** 0.5)
        self.o_proj = linear(width, width, weight_bound=width**-0.5)

    def forward(
        self,
        hidden_states: Tensor,  # (B, T, d)
        attention_mask: Tensor | None = None,
        rotary: tuple[Tensor, Tensor] | None = None,
        past_key_values: Cache | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        batch, length, _ = hidden_states.shape
        qkv = self.qkv_proj(hidden_states).view(batch, length, 3, -1, self.head_dim)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)  # 3 x (B, nh, T, hd)
        if rotary is not None:
            query, key = rotate(qkv[:, :, :2].permute(2, 0, 3, 1, 4), *rotary)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)  # (B, nh, S, hd)

        implementation = self.config._attn_implementation
        attend: Callable[..., tuple[Tensor, Tensor | None]] = ALL_ATTENTION_FUNCTIONS.get_interface(
            implementation, eager_attention_forward
        )
        if implementation == "sdpa" and is_faster_as_products(query, key):
            attend = product_attention_forward
        dropout = self.config.attention_dropout if self.training else 0.0
        mixed, weights = attend(
            self, query, key, value, attention_mask, dropout=dropout, scaling=self.scaling, **kwargs
        )
        return self.o_proj(mixed.reshape(batch, length, -1)), weights


class GreffeMLP(nn.Module):
    def __init__(self, config: GreffeConfig):
        super().__init__()
        outer, inner = config.hidden_size, cast(int, config.intermediate_size)
        self.up_proj = linear(outer, inner, weight_bound=outer**-0.5, bias_bound=outer**-0.5)
        self.down_proj = linear(inner, outer, weight_bound=inner**-0.5, bias_bound=inner**-0.5)
        self.activation = ACT2FN[config.hidden_act]
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.down_proj(drop(self.dropout, self.activation(self.up_proj(hidden_states))))


class GreffeLayer(GradientCheckpointingLayer):
    """Attention, then feed-forward, each in a residual sum; with the default options, `nn.TransformerEncoderLayer`."""

    def __init__(self, config: GreffeConfig, layer_idx: int):
        super().__init__()
        self.norm_first = config.norm_first
        self.self_attn = GreffeAttention(config, layer_idx)
        self.self_attn_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.mlp = GreffeMLP(config)
        self.mlp_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout)

    def forward(self, hidden_states: Tensor, **kwargs: Any) -> Tensor:
        if self.norm_first:
            attended, _ = self.self_attn(self.self_attn_norm(hidden_states), **kwargs)
            hidden_states = hidden_states + drop(self.dropout, attended)
            return hidden_states + drop(self.dropout, self.mlp(self.mlp_norm(hidden_states)))
        attended, _ = self.self_attn(hidden_states, **kwargs)
        hidden_states = self.self_attn_norm(hidden_states + drop(self.dropout, attended))
        return self.mlp_norm(hidden_states + drop(self.dropout, self.mlp(hidden_states)))


class GreffePreTrainedModel(PreTrainedModel):
    config: GreffeConfig
    config_class = GreffeConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _no_split_modules = ["GreffeLayer"]
    _skip_keys_device_placement = ["past_key_values"]
    _supports_flash_attn = True
    _supports_sdpa = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True
    _can_record_outputs = {"hidden_states": GreffeLayer, "attentions": GreffeAttention}

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Draw as the experiment does: `initializer_range` for embeddings and heads, torch's bounds in the layers."""
        if isinstance(module, nn.LayerNorm):
            init.ones_(module.weight)
            init.zeros_(module.bias)
        elif isinstance(module, (nn.Embedding, nn.Linear)):
            weight_bound, bias_bound = getattr(module, "init_bounds", (self.config.initializer_range, 0.0))
            init.uniform_(module.weight, -weight_bound, weight_bound)
            if isinstance(module, nn.Linear) and module.bias is not None:
                init.uniform_(module.bias, -bias_bound, bias_bound)
        elif isinstance(module, NgramPath):  # says nothing until it is fitted
            init.zeros_(module.weight)
            init.zeros_(module.rarity)
            init.copy_(module.spelling, module.unspelt(self.config.vocab_size))

    @staticmethod
    def _finalize_model_loading(model: Any, load_config: Any, loading_info: Any) -> Any:
        """Say in plain words what came from the checkpoint and what is new, in place of the library's table."""
        source = load_config.pretrained_model_name_or_path
        if loading_info.mismatched_keys and not load_config.ignore_mismatched_sizes:
            raise MismatchError(model, source, loading_info.mismatched_keys)
        if not loading_info.conversion_errors:
            loading_info.create_loading_report = lambda *_: None
        loading_info = PreTrainedModel._finalize_model_loading(model, load_config, loading_info)
        report = describe_loading(model, source, loading_info)
        if report is not None:
            logger.warning(report)
        return loading_info


class GreffeModel(GreffePreTrainedModel):
    """The trunk: embeddings, positions and layers, from token ids to one vector per token."""

    def __init__(self, config: GreffeConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.dropout = nn.Dropout(config.hidden_dropout)
        self.layers = nn.ModuleList(GreffeLayer(config, index) for index in range(config.num_hidden_layers))
        # Residual sums that were never normed are normed once at the end; post-norm layers end with a norm already.
        self.norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps) if config.norm_first else nn.Identity()
        self.gradient_checkpointing = False
        self.post_init()

    @merge_with_config_defaults
    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, T)
        attention_mask: Tensor | None = None,  # (B, S): 1 for real tokens, 0 for padding, on any side
        position_ids: Tensor | None = None,  # (B, T); starting again at 0 separates packed documents
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,  # (B, T, d), in place of input_ids
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> BaseModelOutputWithPast:
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected exactly one of input_ids and inputs_embeds, found both or neither")
        if inputs_embeds is None:
            inputs_embeds = self.embed_tokens(input_ids)

        # Before a new cache exists: the library separates packed documents only when it is given no cache.
        mask = self._attention_mask(inputs_embeds, attention_mask, past_key_values, position_ids)
        if position_ids is None:
            position_ids = self._positions(inputs_embeds, attention_mask, past_key_values)
        if use_cache and past_key_values is None and self.config.is_causal:
            past_key_values = DynamicCache(config=self.config)
        if past_key_values is not None:
            leave_room(past_key_values)

        hidden_states = inputs_embeds * math.sqrt(self.config.hidden_size)
        rotary = None
        if self.config.position_embedding_type == "sinusoidal":
            positions = sinusoidal_embedding(position_ids, self.config.hidden_size)
            hidden_states = hidden_states + positions.to(hidden_states.dtype)
        else:
            rotary = rotary_waves(position_ids, self.config.head_dim)
        hidden_states = self.dropout(hidden_states)  # (B, T, d)
        for layer in self.layers:
            hidden_states = layer(
                hidden_states, attention_mask=mask, rotary=rotary, past_key_values=past_key_values, **kwargs
            )
        return BaseModelOutputWithPast(
            last_hidden_state=self.norm(hidden_states),  # (B, T, d)
            past_key_values=past_key_values,
        )

    def _attention_mask(
        self, embeds: Tensor, attention_mask: Tensor | None, cache: Cache | None, position_ids: Tensor | None
    ) -> Any:
        """What each position may see, in the form that the attention implementation wants."""
        if self.config.is_causal:
            if self.config._attn_implementation == "sdpa":
                if cache is None and _pads_on_the_right(attention_mask):
                    # A text never sees what follows it, padding included: the square mask alone says it all, and lets
                    # torch skip the half that it hides.
                    return create_causal_mask(self.config, embeds, None, None)
                if type(cache) is DynamicCache and embeds.shape[1] == 1 and _has_no_padding(attention_mask):
                    return None  # the newest token sees all that is there
            return create_causal_mask(self.config, embeds, attention_mask, cache, position_ids)
        documents = None
        if position_ids is not None and attention_mask is None:
            # The library's mask for both directions does not look for packed documents.
            indices = find_packed_sequence_indices(position_ids.expand(embeds.shape[0], -1))
            documents = None if indices is None else packed_sequence_mask_function(indices)
        return create_bidirectional_mask(self.config, embeds, attention_mask, and_mask_function=documents)

    def _positions(self, embeds: Tensor, attention_mask: Tensor | None, cache: Cache | None) -> Tensor:
        """Count the real tokens, so that a text has the same positions wherever its padding stands; (B or 1, T)."""
        length = embeds.shape[1]
        if attention_mask is not None and attention_mask.ndim == 2:
            return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
        seen = 0 if cache is None else cache.get_seq_length()
        return (torch.arange(length, device=embeds.device) + seen).unsqueeze(0)


class GreffeForCausalLM(GreffePreTrainedModel, GenerationMixin):
    """The trunk and a linear layer that predicts the next token."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: GreffeConfig):
        config = _with_direction(config, is_causal=True)
        super().__init__(config)
        self.model = GreffeModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, T)
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,  # (B, T), as input_ids (the shift is made here); -100 is ignored
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,  # compute the last so many logits, or those of these positions; 0 is all
        **kwargs: Any,
    ) -> CausalLMOutputWithPast:
        """In training with `labels`, returns the loss alone: the (B, T, V) logits are never all there."""
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        shifted = kwargs.pop("shift_labels", None)
        if labels is not None and shifted is None:
            shifted = nn.functional.pad(labels, (0, 1), value=-100)[..., 1:]  # position t predicts token t + 1
        loss, logits = loss_and_logits(self, outputs.last_hidden_state, shifted, logits_to_keep, **kwargs)
        return CausalLMOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )


class GreffeForMaskedLM(GreffePreTrainedModel):
    """The trunk with both directions visible, and a linear layer that predicts each position's own token."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: GreffeConfig):
        config = _with_direction(config, is_causal=False)
        super().__init__(config)
        if config.shifted_masks:
            self.loss_type = "ForCausalLM"  # so that Trainer, which divides by their number, counts no first label
        self.model = GreffeModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, T)
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,  # (B, T): the original token where one was masked, -100 elsewhere
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """In training with `labels`, returns the loss alone: the (B, T, V) logits are never all there."""
        outputs = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            inputs_embeds=inputs_embeds,
            **kwargs,
        )
        hidden_states = outputs.last_hidden_state
        if self.config.shifted_masks:
            hidden_states = hidden_states.roll(1, dims=1)  # what position t - 1 predicts is read at t
            if labels is not None:  # nothing precedes the first position: what is read there comes from the last
                labels = nn.functional.pad(labels[:, 1:], (1, 0), value=-100)
        loss, logits = loss_and_logits(self, hidden_states, labels, **kwargs)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=outputs.hidden_states, attentions=outputs.attentions
        )


class GreffeForSequenceClassification(GreffePreTrainedModel):
    """The trunk and a linear layer on one vector per text: its last real token's, or the means over its tokens.

    With `ngram_order`, a linear classifier of the text's words adds what it has to say.
    """

    def __init__(self, config: GreffeConfig):
        super().__init__(config)
        self.model = GreffeModel(config)
        self.dropout = nn.Dropout(config.classifier_dropout)
        vectors = config.num_hidden_layers + 1 if config.classifier_pooling == "layers" else 1
        self.score = nn.Linear(vectors * config.hidden_size, cast(int, config.num_labels))
        self.ngrams = NgramPath(config) if config.ngram_order else None
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,  # (B, T)
        attention_mask: Tensor | None = None,  # needed where texts are padded: it says which token is the last
        position_ids: Tensor | None = None,
        past_key_values: Cache | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,  # (B) integers; (B, C) of 0 and 1 for several labels; (B) or (B, C) floats
        use_cache: bool | None = False,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutputWithPast:
        outputs, pooled = self.read(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            use_cache=use_cache,
            **kwargs,
        )
        logits = self.score(self.dropout(pooled))  # (B, C)
        if self.ngrams is not None:
            if input_ids is None:
                raise ValueError(f"expected input_ids with ngram_order={self.ngrams.order}, found inputs_embeds alone")
            logits = logits + self.ngrams(input_ids, attention_mask)
        loss: Any = None
        if labels is not None:
            problem_type = self.config.problem_type or self._infer_problem_type(labels)
            self.config.problem_type = problem_type  # remembered: pipelines read it to turn logits into scores
            loss = classification_loss(logits, labels, problem_type, num_items_in_batch)
        return SequenceClassifierOutputWithPast(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            hidden_states=outputs.hidden_states,
            attentions=outputs.attentions,
        )

    def read(self, attention_mask: Tensor | None = None, **inputs: Any) -> tuple[BaseModelOutputWithPast, Tensor]:
        """What the trunk says of the texts, and of that what the head reads, (B, d) or (B, (layers + 1) x d)."""
        if self.config.classifier_pooling != "layers":
            outputs = self.model(attention_mask=attention_mask, **inputs)
            return outputs, self.pool(outputs.last_hidden_state, attention_mask)
        asked = inputs.pop("output_hidden_states", self.config.output_hidden_states)
        outputs = self.model(attention_mask=attention_mask, output_hidden_states=True, **inputs)
        pooled = torch.cat([self.pool(states, attention_mask) for states in cast(tuple, outputs.hidden_states)], dim=-1)
        if not asked:
            outputs.hidden_states = None
        return outputs, pooled

    def pool(self, hidden_states: Tensor, attention_mask: Tensor | None) -> Tensor:
        """One vector per text, (B, T, d) -> (B, d), from its real tokens alone."""
        batch, length, _ = hidden_states.shape
        if attention_mask is None or attention_mask.ndim != 2:
            real = hidden_states.new_ones(batch, length)
        else:
            real = attention_mask[:, -length:].to(hidden_states)
        if self.config.classifier_pooling != "last":
            return (hidden_states * real[..., None]).sum(1) / real.sum(1, keepdim=True).clamp(min=1)
        # The rightmost real token; argmax takes the first of equal values.
        last = (real.cumsum(1) * real).argmax(1)
        return hidden_states[torch.arange(batch, device=hidden_states.device), last]

    def _infer_problem_type(self, labels: Tensor) -> Any:
        if self.config.num_labels == 1:
            return "regression"
        return "multi_label_classification" if labels.is_floating_point() else "single_label_classification"


def _pads_on_the_right(attention_mask: Tensor | None) -> bool:
    """Whether no padding precedes a real token; what is traced cannot depend on it, and is taken to be otherwise."""
    if attention_mask is None or attention_mask.ndim != 2 or is_tracing(attention_mask):
        return False
    return bool((attention_mask[:, 1:] <= attention_mask[:, :-1]).all())


def _has_no_padding(attention_mask: Tensor | None) -> bool:
    """Whether all tokens are real; what is traced cannot depend on it, and is taken to be otherwise."""
    if attention_mask is None:
        return True
    return attention_mask.ndim == 2 and not is_tracing(attention_mask) and bool(attention_mask.all())


def _with_direction(config: GreffeConfig, is_causal: bool) -> GreffeConfig:
    """The configuration for a head that has one direction only; the caller's object may serve other models."""
    if config.is_causal == is_causal:
        return config
    config = copy.deepcopy(config)
    config.is_causal = is_causal
    return config


# Trainer looks for the class's name here to know that label smoothing must shift the labels too.
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.setdefault(GreffeConfig.model_type, GreffeForCausalLM.__name__)

__all__ = [
    "GreffeForCausalLM",
    "GreffeForMaskedLM",
    "GreffeForSequenceClassification",
    "GreffeModel",
    "GreffePreTrainedModel",
]
