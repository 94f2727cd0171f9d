"""A saved folder in an environment that has transformers but not Greffe."""

from pathlib import Path

import pytest
import torch
from environments import run_python, without_greffe
from greffe.modeling import GreffeForCausalLM, GreffeForMaskedLM, GreffeForSequenceClassification, GreffeModel
from tiny_models import random_ids, tiny_config

HEADS = {
    "AutoModel": GreffeModel,
    "AutoModelForCausalLM": GreffeForCausalLM,
    "AutoModelForMaskedLM": GreffeForMaskedLM,
    "AutoModelForSequenceClassification": GreffeForSequenceClassification,
}

# Loads with every head, saves again from there, loads that, and returns what each head computes.
CODE = """
import importlib.util, json
import torch, transformers
assert importlib.util.find_spec("greffe") is None
source, copy, ids = {arguments}
ids = torch.tensor(ids)
results = {{}}
for name in {heads}:
    torch.manual_seed(4)
    model = getattr(transformers, name).from_pretrained(source, trust_remote_code=True).eval()
    assert type(model).__module__.startswith("transformers_modules")
    with torch.no_grad():
        output = model(ids)[0]
        model.save_pretrained(f"{{copy}}/{{name}}")
        again = getattr(transformers, name).from_pretrained(f"{{copy}}/{{name}}", trust_remote_code=True).eval()
        assert torch.equal(again(ids)[0], output)
        assert transformers.AutoModelForCausalLM.from_pretrained(f"{{copy}}/{{name}}", trust_remote_code=True)
    results[name] = output.tolist()
print(json.dumps(results))
"""


@pytest.mark.parametrize(
    ("saved_with", "options"),
    [
        (GreffeForCausalLM, {}),
        (GreffeForSequenceClassification, {}),
        (GreffeForSequenceClassification, {"ngram_order": 2, "ngram_buckets": 64, "classifier_pooling": "layers"}),
    ],
)
def test_every_head_loads_without_greffe(saved_with: type, options: dict, kind: str, tmp_path: Path) -> None:
    model = saved_with(tiny_config(kind, **options))
    if options:  # a path of n-grams that has something to say
        torch.nn.init.normal_(model.ngrams.weight)
        torch.nn.init.uniform_(model.ngrams.rarity, 1, 5)
    model.save_pretrained(tmp_path / "saved")
    assert (tmp_path / "saved" / "ngrams.py").is_file()
    ids = random_ids(2, 6)
    arguments = repr((str(tmp_path / "saved"), str(tmp_path / "copies"), ids.tolist()))
    found = run_python(
        without_greffe(tmp_path / "environment"),
        CODE.format(arguments=arguments, heads=list(HEADS)),
        tmp_path,
        HF_HOME=str(tmp_path / "cache"),
    )
    for name, model_class in HEADS.items():
        torch.manual_seed(4)
        model = model_class.from_pretrained(tmp_path / "saved").eval()
        with torch.no_grad():
            expected = model(ids)[0]
        torch.testing.assert_close(torch.tensor(found[name]), expected, atol=1e-6, rtol=1e-5)
        # and what was saved there is read here
        here = model_class.from_pretrained(tmp_path / "copies" / name).eval()
        with torch.no_grad():
            torch.testing.assert_close(here(ids)[0], expected)
