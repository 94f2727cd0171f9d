"""Which explanations are true: `python -m benchmarks.explain MODEL FILE [--texts N]`.

For each method: how far the probability of the predicted label falls when the tokens it points to are deleted, beside
deleting as many at random; and what an explanation costs, without that measurement. FILE holds texts (.jsonl, .csv,
.parquet, .txt).
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import get_args

from greffe.inference import deletion_faithfulness, explain, load_classifier
from greffe.inference.explanation import Method
from greffe.inference.faithfulness import FRACTIONS
from greffe.inference.sources import open_source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--texts", type=int, default=200, metavar="N", help="spread over the file; default: 200")
    parser.add_argument("--steps", type=int, default=32, metavar="N", help="of integrated gradients; default: 32")
    options = parser.parse_args()
    classifier = load_classifier(options.model)
    windows = open_source([options.file], "text", "strict", sys.stdin.buffer).windows()
    texts = [text for window in windows for text in window.texts]
    texts = texts[:: max(1, len(texts) // options.texts)][: options.texts]

    print(f"{len(texts)} texts; fall of the probability with a share of the tokens deleted")
    print(f"{'':22}" + "".join(f"{fraction:>8.0%}" for fraction in FRACTIONS) + "    mean  beyond random  ms a text")
    for method in get_args(Method):
        found = deletion_faithfulness(classifier, texts, method, steps=options.steps)
        start = time.perf_counter()
        for text in texts:
            explain(classifier, text, method=method, steps=options.steps)
        milliseconds = (time.perf_counter() - start) / len(texts) * 1000
        mean = sum(found.drops) / len(found.drops)
        falls = "".join(f"{drop:8.3f}" for drop in found.drops)
        print(f"{method:22}{falls}{mean:8.3f}{found.advantage:15.3f}{milliseconds:11.0f}", flush=True)
    mean = sum(found.random_drops) / len(found.random_drops)
    print(f"{'random':22}" + "".join(f"{drop:8.3f}" for drop in found.random_drops) + f"{mean:8.3f}")


if __name__ == "__main__":
    main()
