"""What a Greffe model is. Importing this package makes transformers' Auto classes know it."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)

from .configuration_greffe import PRESETS, GreffeConfig
from .modeling_greffe import (
    GreffeForCausalLM,
    GreffeForMaskedLM,
    GreffeForSequenceClassification,
    GreffeModel,
    GreffePreTrainedModel,
)

AutoConfig.register(GreffeConfig.model_type, GreffeConfig, exist_ok=True)
GreffeConfig.register_for_auto_class()
for _auto_class, _model_class in (
    (AutoModel, GreffeModel),
    (AutoModelForCausalLM, GreffeForCausalLM),
    (AutoModelForMaskedLM, GreffeForMaskedLM),
    (AutoModelForSequenceClassification, GreffeForSequenceClassification),
):
    _auto_class.register(GreffeConfig, _model_class, exist_ok=True)
    _model_class.register_for_auto_class(_auto_class)  # `save_pretrained` then writes the code beside the weights

__all__ = [
    "PRESETS",
    "GreffeConfig",
    "GreffeForCausalLM",
    "GreffeForMaskedLM",
    "GreffeForSequenceClassification",
    "GreffeModel",
    "GreffePreTrainedModel",
]
