"""Start-up: how long one waits for `greffe --help`, and for the first prediction of a process that has just started.

Every run is a new process, with its files in the disk cache. Python alone and `import torch` show what nobody can save.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from .command_line import Options, main
from .report import Case
from .rounds import alternate_commands, run_apart
from .workload import Workload, write_corpus, write_tokenizer

_TEXT = "A film to see again."

_GREFFE = """
import sys
from greffe.inference import load_classifier
print(load_classifier(sys.argv[1]).predict([sys.argv[2]])[0].label)
"""

_GPT2 = """
import sys
from transformers import pipeline
print(pipeline("text-classification", model=sys.argv[1])(sys.argv[2]))
"""


def run(options: Options, folder: Path) -> Iterator[Case]:
    rounds, warm_up = options.rounds or options.pick(5, 1), not options.quick
    python, binaries = sys.executable, Path(sys.executable).parent
    helps: dict[str, list[str | Path]] = {
        "greffe": [binaries / "greffe", "--help"],
        "transformers --help": [binaries / "transformers", "--help"],
        "python alone": [python, "-c", "pass"],
    }
    yield Case("startup", "help", "s", alternate_commands(helps, rounds=rounds, warm_up=warm_up), less_is_better=True)

    write_corpus(folder, 1, options.corpus)
    for size in options.choose_sizes("small"):
        workload = Workload(size, folder, write_tokenizer(folder, size.vocabulary))
        ours, theirs = run_apart("ours.save_classifier", workload), run_apart("gpt2.save_classifier", workload)
        predictions: dict[str, list[str | Path]] = {
            "greffe": [python, "-c", _GREFFE, ours, _TEXT],
            "gpt-2, pipeline": [python, "-c", _GPT2, theirs, _TEXT],
            "import torch": [python, "-c", "import torch"],
        }
        measured = alternate_commands(predictions, rounds=rounds, warm_up=warm_up)
        yield Case("startup", f"first prediction, {size.name}", "s", measured, less_is_better=True)


if __name__ == "__main__":
    main(run, __doc__)
