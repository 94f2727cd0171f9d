"""A tokenizer of whole words, enough for the pipelines of tiny models."""

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

WORDS = ["le", "la", "un", "une", "livre", "roman", "film", "bon", "mauvais", "très", "beau", ".", ",", "!"]


def word_tokenizer() -> PreTrainedTokenizerFast:
    tokens = ["<s>", "<pad>", "</s>", "<mask>", "<unk>", *WORDS]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(tokens)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", mask_token="<mask>",
        unk_token="<unk>",
    )  # fmt: skip
