"""What several tests of the stages start from. Not to be changed by them."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from invented_text import make_documents
    from tiny_stages import use_cache

    use_cache(tmp_path_factory.mktemp("cache"))
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(make_documents(400, seed=3)), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_reviews import make_base

    return make_base(tmp_path_factory.mktemp("base") / "model")


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_reviews import make_reviews, write_rows

    return write_rows(tmp_path_factory.mktemp("reviews") / "reviews.jsonl", make_reviews(160, seed=1))
