"""Tiny trained models that the tests of this room share."""

from pathlib import Path

import pytest
from greffe.inference import Classifier, LanguageModel, load_classifier, load_language_model
from greffe.train.arguments import PretrainArguments
from greffe.train.pretrain import pretrain
from invented_text import make_documents
from trained_models import save_classifier


@pytest.fixture(scope="session")
def classifier_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_classifier(tmp_path_factory.mktemp("classifier") / "model")


@pytest.fixture(scope="session")
def classifier(classifier_folder: Path) -> Classifier:
    return load_classifier(classifier_folder)


@pytest.fixture(scope="session")
def language_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pre-trained for a moment, in rows of 64 tokens; its corpus lies beside it."""
    folder = tmp_path_factory.mktemp("language_model")
    (folder / "corpus.txt").write_text("\n".join(make_documents(500, seed=4)), encoding="utf-8")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    pretrain(
        PretrainArguments(
            corpus=[str(folder / "corpus.txt")], output=str(folder / "model"), tokenizer_vocab_size=400, block_size=64,
            max_steps=40, eval_steps=40, learning_rate=5e-3, validation_fraction=0.1, bf16="off", **sizes,
        )
    )  # fmt: skip
    return folder / "model"


@pytest.fixture(scope="session")
def language_model(language_model_folder: Path) -> LanguageModel:
    return load_language_model(language_model_folder)
