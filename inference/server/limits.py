"""What a request may cost: its size, its time, its place in the queue. Each limit is documented once, here."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


def _limit(default: float, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class Limits:
    """The limits of a server; each is a flag of `greffe serve`."""

    max_texts: int = _limit(128, "Texts in one request.")
    max_characters: int = _limit(20_000, "Characters of a text, and of a prompt.")
    max_prompt_tokens: int = _limit(8192, "Tokens of a prompt.")
    max_new_tokens: int = _limit(1024, "Tokens that one request may ask a language model for.")
    max_body: int = _limit(1 << 20, "Bytes in the body of a request.")
    max_upload: int = _limit(20 << 20, "Bytes of a file that is uploaded to the page.")
    max_rows: int = _limit(20_000, "Rows of such a file.")
    max_queue: int = _limit(2048, "Texts that may wait for the model; more are refused, to be sent again later.")
    max_batch: int = _limit(32, "Texts that go through the model together; 1: no batching.")
    batch_milliseconds: float = _limit(3.0, "How long a text waits for company when the model has nothing to do.")
    timeout: float = _limit(
        60.0,
        "Seconds that a request may take once it is here; then it is answered with 503, or with the text that was "
        "written so far. Also the seconds in which a file must be uploaded.",
    )
    read_timeout: float = _limit(15.0, "Seconds in which a client must have sent its request, or taken its answer.")
    max_connections: int = _limit(900, "Connections at the same time.")

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            least = 0 if limit.name == "batch_milliseconds" else 1 if limit.type == "int" else 0.001
            if not value >= least:  # also refuses what is not a number
                raise ValueError(f"expected --{limit.name} of at least {least}, found {value}")


__all__ = ["Limits"]
