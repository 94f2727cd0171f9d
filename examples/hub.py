"""A model by name, both ways: from a directory without a network, and through a server with the Hub's own client.

The code that loads is unmodified transformers, in processes of its own: they could be on machines without Greffe. The
variables must be set before transformers is imported; on a command line, `eval "$(greffe hub env)"` sets them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from greffe.hub import LocalHub
from greffe.modeling import GreffeConfig, GreffeForSequenceClassification

TOKEN = "any-secret"

LOAD = """
from transformers import AutoModelForSequenceClassification
model = AutoModelForSequenceClassification.from_pretrained("team/tiny", revision="v1", trust_remote_code=True)
print(f"loaded team/tiny@v1 with {model.num_parameters():,} parameters")
"""

PUSH = """
from huggingface_hub import create_tag, list_models
model.push_to_hub("team/copy", commit_message="From a client")
create_tag("team/copy", tag="v1")
print("the server has", sorted(model.id for model in list_models()))
"""


def run(code: str, **variables: str) -> None:
    quiet = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"}
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **quiet, **variables}, check=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        hub, folder = LocalHub(Path(place) / "hub"), Path(place) / "model"
        config = GreffeConfig(vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_labels=2)
        GreffeForSequenceClassification(config).save_pretrained(folder)
        revision = hub.push(folder, "team/tiny", tag="v1", message="The first one").revision
        print(f"pushed team/tiny@{revision.id[:12]}: {', '.join(revision.files)}", flush=True)

        print("from the directory:", flush=True)
        run(LOAD, HF_HUB_CACHE=str(hub.path), HF_HUB_OFFLINE="1", HF_HOME=place)

        print("through the server:", flush=True)
        command = [sys.executable, "-m", "greffe.train.cli", "hub", "serve", "--hub", hub.path, "--port", "0"]
        server = subprocess.Popen([*command, "--token", TOKEN], stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split()[-1]
            run(LOAD + PUSH, HF_ENDPOINT=address, HF_HUB_OFFLINE="0", HF_TOKEN=TOKEN, HF_HOME=place)
        finally:
            server.terminate()
            server.wait()
        print("and in the log:", [revision.title for revision in hub.log("team/copy")])


if __name__ == "__main__":
    main()
