"""What contenders import. It is done once, in a process that theirs are copies of.

So a contender starts in no time, and its memory counts from here: what libraries take is not a matter of training.
"""

# ruff: noqa: F401
import datasets
import greffe.inference.classifier
import greffe.inference.language_model
import greffe.train.finetune
import greffe.train.pretrain
import sklearn.feature_extraction.text
import sklearn.linear_model
import torch._dynamo  # which the first step of any optimiser imports
import transformers.models.gpt2.modeling_gpt2
import transformers.pipelines.text_classification

from . import gpt2, nanogpt, ours, reference, tfidf
