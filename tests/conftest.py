"""What every test shares: no network, one thread per worker, tiny models."""

import os

# Two workers on a small machine: threads of their own would only fight, and sums would depend on their number.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
