"""Small SentencePiece models of the experiment's kind."""

import io
from pathlib import Path
from typing import Any

import sentencepiece
from invented_text import make_documents


def train_model(folder: Path, **options: Any) -> Any:
    """A SentencePiece model with the experiment's options, and the dictionary that goes with it."""
    written = io.BytesIO()
    settings = {"model_type": "bpe", "vocab_size": 400, "character_coverage": 0.999, "minloglevel": 2, **options}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(make_documents(600)), model_writer=written, num_threads=1, **settings
    )
    (folder / "a.model").write_bytes(written.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
    (folder / "dict.txt").write_text("".join(f"{piece} 1\n" for piece in pieces), encoding="utf-8")
    return processor
