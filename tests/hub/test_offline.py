"""The directory as the Hub's cache, in an environment that has transformers but not Greffe, with no network."""

from pathlib import Path

from environments import run_python
from greffe.hub import LocalHub
from greffe.modeling import GreffeForSequenceClassification

CODE = """
import importlib.util, json, os
assert importlib.util.find_spec("greffe") is None
import torch
from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

def norm(**arguments):
    model = AutoModelForSequenceClassification.from_pretrained("team/tiny", trust_remote_code=True, **arguments)
    return sum(parameter.double().abs().sum().item() for parameter in model.parameters())

classify = pipeline("text-classification", model="team/tiny", revision="v1", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("team/tiny", revision="v1", trust_remote_code=True)
cache = scan_cache_dir()
(repository,) = cache.repos
print(json.dumps({
    "norms": [norm(revision="v1"), norm(), norm(revision=%(first)r)],
    "tokens": tokenizer.tokenize("un bon livre"),
    "label": classify("un bon livre")[0]["label"] in ("bad", "good"),
    "snapshot": sorted(os.listdir(snapshot_download("team/tiny", revision="v1"))),
    "file": hf_hub_download("team/tiny", "config.json"),
    "scanned": [repository.repo_id, sorted(repository.refs), len(repository.revisions), len(cache.warnings)],
}))
"""


def test_unmodified_clients_load_by_name_and_tag(
    hub: LocalHub, model_folder: Path, client_python: Path, tmp_path: Path
) -> None:
    first = hub.push(model_folder, "team/tiny", tag="v1").revision
    model = GreffeForSequenceClassification.from_pretrained(model_folder)
    norm = sum(parameter.double().abs().sum().item() for parameter in model.parameters())
    for parameter in model.parameters():
        parameter.data *= 2
    model.save_pretrained(model_folder)
    second = hub.push(model_folder, "team/tiny").revision
    settings = {"HF_HUB_CACHE": str(hub.path), "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    found = run_python(client_python, CODE % {"first": first.id}, tmp_path, **settings)
    assert [round(value / norm, 6) for value in found["norms"]] == [1, 2, 1]
    assert found["tokens"] == ["un", "bon", "livre"]
    assert found["label"] is True
    assert found["snapshot"] == sorted(first.files)
    assert found["file"] == str(hub.snapshot("team/tiny", second.id) / "config.json")
    assert found["scanned"] == ["team/tiny", ["main", "v1"], 2, 0]
    assert hub.verify() == []
