"""What training gives: lossless tokenizers, the same bytes each time, and clear refusals."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata

import invented_text
import pytest
from greffe.tokenization import read_corpus, train_tokenizer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from invented_text import make_documents
from tokenizers.normalizers import Lowercase

# Where tokenizers usually lose something, mixed with any Unicode text (which never holds lone surrogates).
TRAPS = [
    *("<s>", "</s>", "<pad>", "<mask>", "<unk>", "<s", ">", "\r\n", "\r", "\n\n", "\t", "  ", " ?", "\x00", "\x7f"),
    *("\u0301", "e\u0301", "\u0323\u0302", "\u00a0", "\u2028", "\u200b", "\ufeff", "\ufffd", "\ufffe", "\u0378"),
    *("👨\u200d👩\u200d👧", "🇫🇷", "\U0010ffff", "中文", "\u202e", "Ġ", "▁", "Ã©", "ﬁ", "½", "İ", "'s", "l'été"),
    *("</S>", "<MASK>", "ÉTÉ", "E\u0301", "ΟΔΟΣ", "ẞ", "Ⱥ", "\u212a", "ǅ"),  # some grow or shrink in lower case
]
TEXTS = st.lists(st.sampled_from(TRAPS) | st.text()).map("".join)


@pytest.fixture(params=["bpe", "unigram"])
def tokenizer(request):
    return request.getfixturevalue(request.param)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS)
def test_lossless_on_any_text(tokenizer, text):
    ids = tokenizer(text)["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    assert not set(ids[1:]) & set(tokenizer.all_special_ids)
    assert tokenizer.decode(ids[1:]) == text
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def lowercase(request, documents):
    return train_tokenizer(documents, vocab_size=500, algorithm=request.param, lowercase=True)


@settings(max_examples=300, deadline=None)
@given(text=TEXTS)
def test_lowercase_loses_the_case_and_nothing_else(lowercase, text):
    encoding = lowercase(text, return_offsets_mapping=True)
    ids = encoding["input_ids"]
    assert not set(ids[1:]) & set(lowercase.all_special_ids)
    assert lowercase.decode(ids[1:]) == Lowercase().normalize_str(text)
    # Offsets are those of the text as it was, where İ has become two characters too.
    assert {i for start, end in encoding["offset_mapping"] for i in range(start, end)} == set(range(len(text)))


def test_lowercase_is_that_of_each_character_alone(lowercase):
    """Python's, but for a final sigma, and for characters that only the library's newer tables have."""
    text = "ΟΔΟΣ " + "".join(c for c in map(chr, range(sys.maxunicode)) if unicodedata.category(c)[0] != "C")
    ids = lowercase(text, verbose=False)["input_ids"]
    assert lowercase.decode(ids[1:]) == "".join(map(str.lower, text)) != text.lower()


def test_lowercase_pieces_stand_for_words_of_the_original_text():
    text = "L'ŒUVRE d'İlhan à Évry : « Excellente », ÉMOUVANTE !"
    tokenizer = train_tokenizer([text] * 20, vocab_size=600, lowercase=True)
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    words = [text[start:end] for start, end in encoding["offset_mapping"]]
    assert "|".join(words) == "L|'|ŒUVRE| d|'|İlhan| à| Évry| :| «| Excellente| »,| ÉMOUVANTE| !"
    assert [tokenizer.decode([token_id]) for token_id in encoding["input_ids"]] == [word.lower() for word in words]


def test_lowercase_makes_no_control_token(lowercase):
    ids = lowercase("</S><MASK></s>", split_special_tokens=False)["input_ids"]
    assert [token_id for token_id in ids if token_id in lowercase.all_special_ids] == [0, 2]


def test_special_tokens_have_the_ids_of_the_model_defaults(tokenizer):
    assert tokenizer.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<mask>"]) == [0, 1, 2, 3]
    assert (tokenizer.bos_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id) == (0, 1, 2)
    assert tokenizer.mask_token_id == 3
    assert tokenizer.unk_token is None


def test_vocabulary_size_is_what_was_asked_and_ids_have_no_holes(tokenizer):
    assert sorted(tokenizer.get_vocab().values()) == list(range(500))


def test_pieces_are_learned(tokenizer, documents):
    text = "\n".join(documents)
    assert len(text) / len(tokenizer(text, verbose=False)["input_ids"]) > 2  # bytes alone would give less than 1


def test_pieces_stay_inside_words_and_take_marks_with_them():
    tokenizer = train_tokenizer(["me\u0301me le 1234!!"] * 20, vocab_size=400)
    pieces = [tokenizer.decode([token_id]) for token_id in tokenizer("me\u0301me le 1234!!")["input_ids"][1:]]
    assert pieces == ["me\u0301me", " le", " 1234", "!!"]


def test_a_long_run_does_not_take_forever(tokenizer):
    # Without the limit a piece would grow over the whole run, and the time with the square of its length.
    learned = train_tokenizer(["acgt" * 75_000], vocab_size=300)
    assert max(len(token) for token in learned.get_vocab()) <= 256
    run = "acgt-" * 100 + "a" * 10_000
    assert tokenizer.decode(tokenizer(run, verbose=False)["input_ids"][1:]) == run


def test_a_control_token_in_the_corpus_is_not_learned_as_a_piece(tokenizer):
    # Its string would then have two ids, or a text would hold the control token's own.
    learned = train_tokenizer(["</s><mask></s> <pad>"] * 50, vocab_size=400, algorithm="unigram")
    assert {"<s>", "<pad>", "</s>", "<mask>"} == {
        token for token in learned.get_vocab() if token.startswith("<") and token.endswith(">")
    }
    assert 2 not in learned("</s>")["input_ids"]


SCRIPT = """
import sys
from invented_text import make_documents
from greffe.tokenization import save_tokenizer, train_tokenizer

for algorithm in ("bpe", "unigram"):
    save_tokenizer(train_tokenizer(make_documents(1500), 900, algorithm), f"{sys.argv[1]}/{algorithm}")
"""


def test_the_same_corpus_gives_the_same_bytes(tmp_path):
    """Whatever Python's hash seed and the number of threads; the trainer's own hash tables are random each time."""
    found = []
    for run, threads in (("first", "1"), ("second", "2")):
        (tmp_path / run).mkdir()
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([os.path.dirname(invented_text.__file__), *sys.path]),
            "PYTHONHASHSEED": threads,
            "RAYON_NUM_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "true",
        }
        subprocess.run([sys.executable, "-c", SCRIPT, tmp_path / run], env=environment, check=True)
        files = sorted(path for path in (tmp_path / run).rglob("*") if path.is_file())
        found.append({path.relative_to(tmp_path / run): path.read_bytes() for path in files})
    assert len(found[0]) == 4  # tokenizer.json and tokenizer_config.json of both
    assert found[0] == found[1]


def test_trained_from_files_as_from_their_documents(tmp_path, documents, bpe):
    half = len(documents) // 2
    (tmp_path / "a.txt").write_text("\n".join(documents[:half]), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\r\n".join(documents[half:]), encoding="utf-8")
    tokenizer = train_tokenizer(read_corpus(tmp_path), vocab_size=500)
    assert tokenizer.backend_tokenizer.to_str() == bpe.backend_tokenizer.to_str()


def test_the_smallest_vocabulary_is_the_bytes():
    tokenizer = train_tokenizer(make_documents(20), vocab_size=260)
    assert len(tokenizer) == 260
    assert tokenizer.decode(tokenizer("été 🎉")["input_ids"][1:]) == "été 🎉"


def never():
    raise AssertionError("read")
    yield ""


@pytest.mark.parametrize("algorithm", ["bpe", "unigram"])
def test_a_vocabulary_too_small_is_refused_before_reading(algorithm):
    with pytest.raises(
        ValueError, match=r"expected vocab_size of at least 260 \(256 bytes and 4 special tokens\), found 259"
    ):
        train_tokenizer(never(), vocab_size=259, algorithm=algorithm)


def test_a_small_corpus_gives_a_smaller_vocabulary():
    assert 260 < len(train_tokenizer(["aa aa aa"], vocab_size=1000)) < 270


@pytest.mark.parametrize(
    ("documents", "options", "error", "message"),
    [
        ([], {}, ValueError, "expected at least one document, found none"),
        ("corpus.txt", {}, TypeError, r"expected documents, found one string or path: 'corpus.txt'; pass read_corpus"),
        (never(), {"algorithm": "wordpiece"}, ValueError, r"among \['bpe', 'unigram'\], found 'wordpiece'"),
        (never(), {"model_max_length": 1}, ValueError, "expected model_max_length of at least 2, found 1"),
    ],
)
def test_refused(documents, options, error, message):
    with pytest.raises(error, match=message):
        train_tokenizer(documents, **options)


def test_an_error_while_reading_stops_training():
    def fail():
        yield "a document"
        raise ValueError("byte 0xe9")

    with pytest.raises(ValueError, match="byte 0xe9"):
        train_tokenizer(fail())
