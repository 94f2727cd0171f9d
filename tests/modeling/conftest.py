"""Both kinds of model, the same seed for every test, and a checkpoint folder to graft from."""

from pathlib import Path

import pytest
import torch
from greffe.modeling import GreffeForCausalLM
from tiny_models import KINDS, tiny_config


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def causal_folder(tmp_path: Path, kind: str) -> Path:
    folder = tmp_path / "causal"
    GreffeForCausalLM(tiny_config(kind)).save_pretrained(folder)
    return folder
