"""Pickles are known by their names and by their bytes; other files are not taken for them."""

import json
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from greffe.hub.pickles import why_pickle
from safetensors.torch import save_file


@pytest.mark.parametrize("name", ["pytorch_model.bin", "a/b.PT", "x.pth", "x.ckpt", "x.pkl", "x.pickle", "x.pkl.gz"])
def test_names(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("harmless")
    assert why_pickle(name, tmp_path / "file").startswith("ends in ")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_in_disguise(protocol: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pickle.dumps({"weights": [1.0]}, protocol))
    for name in ("model.safetensors", "README.md", "weights"):
        assert why_pickle(name, tmp_path / "file") == "begins like a pickle"


@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_saves_in_disguise(zipped: bool, tmp_path: Path) -> None:
    torch.save({"w": torch.ones(3)}, tmp_path / "file", _use_new_zipfile_serialization=zipped)
    assert why_pickle("model.safetensors", tmp_path / "file")


def test_a_broken_archive_is_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"PK\x03\x04 and nothing that Python could read")
    assert why_pickle("model.safetensors", tmp_path / "file")


def test_other_files(tmp_path: Path) -> None:
    save_file({"w": torch.ones(3)}, tmp_path / "model.safetensors")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
        archive.writestr("notes.txt", "no pickle")
    (tmp_path / "binary").write_bytes(b"text")
    (tmp_path / "empty.txt").write_bytes(b"")
    for file in tmp_path.iterdir():
        assert why_pickle(file.name, file) is None, file


@pytest.mark.parametrize("length", [640, 0x0380, 0x0480, 0x0580, 0x5D0280])
def test_weights_whose_header_looks_like_a_pickle(length: int, tmp_path: Path) -> None:
    """The first bytes of a safetensors file are the length of its header: some lengths begin like a pickle."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode().ljust(length)
    file = tmp_path / "model.safetensors"
    file.write_bytes(struct.pack("<Q", length) + header + bytes(4))
    assert file.read_bytes()[0] == 0x80
    assert why_pickle(file.name, file) is None
