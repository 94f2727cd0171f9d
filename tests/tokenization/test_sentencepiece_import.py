"""The imported tokenizer is the SentencePiece model itself, piece by piece."""

from __future__ import annotations

import subprocess
import sys

import pytest
from greffe.tokenization import import_sentencepiece, read_pretokenized, save_tokenizer
from greffe.tokenization.sentencepiece_import import _compare
from hypothesis import given, settings
from hypothesis import strategies as st
from invented_text import make_documents
from sentencepiece_models import train_model
from transformers import AutoTokenizer


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiment")
    processor = train_model(folder)
    return processor, import_sentencepiece(folder / "a.model", folder / "dict.txt"), folder


def assert_same_pieces(imported, text: str) -> None:
    processor, tokenizer, _ = imported
    encoding = tokenizer(text, add_special_tokens=False, verbose=False)
    expected = processor.encode(text, out_type=str)
    ids = [3 if i == processor.unk_id() else i + 1 for i in processor.encode(text)]
    assert encoding["input_ids"] == ids
    known = [token if i != 3 else piece for token, i, piece in zip(encoding.tokens(), ids, expected, strict=True)]
    assert known == expected


def test_on_the_corpus(imported):
    for text in make_documents(600) + make_documents(200, seed=1):
        assert_same_pieces(imported, text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "  balo  mi ", "\tbalo\r\nmi\n", "balo\u00a0mi\u3000", "balo\u200bmi", "\u2028balo", "\x00balo\x07"),
        *(
            "▁balo",
            "▁",
            "balo▁",
            "balo ▁ mi",
            "▁▁balo▁▁mi▁▁",
            "balo▁ ",
            "Ｂａｌｏ",
            "ﬁ½①…",
            "balo...",
            "re\u0301",
            "çu\u0302",
        ),
        *(
            "中文",
            "balo中文🎉mi",
            "中 文",
            "<s>",
            "</s> balo <unk> <pad> <sos><oov>",
            "👨\u200d👩\u200d👧",
            "BALO",
            "mimimimimimi",
        ),
    ],
)
def test_on_tricky_texts(imported, text):
    assert_same_pieces(imported, text)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from([*"balomirçutanoùvers", "é", "ê", "œ", " ", "  ", "▁", ".", "…", "中", "e\u0301", "\n"]))
)
def test_on_any_mix_of_its_characters(imported, characters):
    assert_same_pieces(imported, "".join(characters))


def test_ids_are_the_experiments(imported):
    processor, tokenizer, folder = imported
    assert len(tokenizer) == processor.get_piece_size() + 1 == 401
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    dictionary = [line.split(" ")[0] for line in (folder / "dict.txt").read_text(encoding="utf-8").splitlines()]
    assert tokens == ["<sos>", "<pad>", "<eos>", "<oov>", *dictionary]
    names = ("bos_token_id", "pad_token_id", "eos_token_id", "unk_token_id")
    assert [getattr(tokenizer, name) for name in names] == [0, 1, 2, 3]


def test_saved_and_loaded_it_is_the_same(imported, tmp_path):
    processor, tokenizer, _ = imported
    save_tokenizer(tokenizer, tmp_path / "lab")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "lab")
    for text in ["Balo mi, ré ! 中 <eos>", *make_documents(50, seed=2)]:
        assert_same_pieces((processor, loaded, None), text)
        assert loaded(text)["input_ids"][0] == 0
    text = make_documents(1)[0]
    assert loaded.decode(loaded(text)["input_ids"], skip_special_tokens=True) == processor.decode(
        processor.encode(text)
    )


def test_pretokenized_files_give_the_ids_of_the_tokenizer(imported, tmp_path):
    processor, tokenizer, folder = imported
    texts = [*make_documents(50, seed=3), "balo 中文 mi"]
    lines = [" ".join(processor.encode(text, out_type=str)) for text in texts]
    (tmp_path / "train.review.spm").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "train.label").write_text("\n".join(str(i % 2) for i in range(len(texts))) + "\n")
    reviews = read_pretokenized(tmp_path / "train", folder / "dict.txt")
    assert reviews.input_ids == tokenizer(texts)["input_ids"]
    assert 3 in reviews.input_ids[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model_type": "unigram", "vocab_size": 100}, r"expected .* a BPE model \(--model_type=bpe\), found"),
        ({"byte_fallback": True}, "trained with --byte_fallback=false"),
        ({"add_dummy_prefix": False}, "trained with --add_dummy_prefix=true"),
        ({"remove_extra_whitespaces": False}, "trained with --remove_extra_whitespaces=true"),
        ({"treat_whitespace_as_suffix": True}, "trained with --treat_whitespace_as_suffix=false"),
        ({"user_defined_symbols": ["balo"]}, "trained with no symbols of its own"),
    ],
)
def test_other_kinds_of_models_are_refused(tmp_path, options, message):
    train_model(tmp_path, **options)
    with pytest.raises(ValueError, match=message):
        import_sentencepiece(tmp_path / "a.model", tmp_path / "dict.txt")


def test_the_comparison_before_writing_finds_a_difference(imported, tmp_path):
    _, tokenizer, _ = imported
    another = train_model(tmp_path, vocab_size=390)
    with pytest.raises(
        ValueError, match=r"expected the pieces of SentencePiece for '.*', \[.*\], found \[.*\]: this kind"
    ):
        _compare(tokenizer, another, make_documents(20))


@pytest.mark.parametrize("normalization", ["identity", "nfkc", "nmt_nfkc_cf"])
def test_other_normalisations(tmp_path, normalization):
    processor = train_model(tmp_path, normalization_rule_name=normalization)
    tokenizer = import_sentencepiece(tmp_path / "a.model", tmp_path / "dict.txt")
    for text in ["Balo  MI\tré", " \u00a0balo ½ ", "▁balo", "balo▁ ", "▁", "balo ▁mi", *make_documents(20)]:
        assert_same_pieces((processor, tokenizer, None), text)


def test_words_that_meet_in_one_piece(tmp_path):
    processor = train_model(tmp_path, split_by_whitespace=False)
    tokenizer = import_sentencepiece(tmp_path / "a.model", tmp_path / "dict.txt")
    assert any("▁" in piece[1:] for piece in tokenizer.get_vocab())
    for text in make_documents(100):
        assert_same_pieces((processor, tokenizer, None), text)


def test_a_dictionary_of_another_model_is_refused(imported, tmp_path):
    _, _, folder = imported
    lines = (folder / "dict.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "short.txt").write_text("".join(lines[:-1]), encoding="utf-8")
    with pytest.raises(ValueError, match=r"expected a dictionary of the 397 pieces of .*a.model, found 396 in .*short"):
        import_sentencepiece(folder / "a.model", tmp_path / "short.txt")
    lines[10], lines[11] = lines[11], lines[10]
    (tmp_path / "swapped.txt").write_text("".join(lines), encoding="utf-8")
    with pytest.raises(ValueError, match=r"in the same order, found '.*' on line 11 of .*swapped.txt in place of"):
        import_sentencepiece(folder / "a.model", tmp_path / "swapped.txt")


def test_not_a_model(imported, tmp_path):
    (tmp_path / "a.model").write_bytes(b"not a model")
    with pytest.raises(
        ValueError, match=r"expected a SentencePiece model, found something else in .*a.model \(11 bytes\)"
    ):
        import_sentencepiece(tmp_path / "a.model", imported[2] / "dict.txt")
    with pytest.raises(FileNotFoundError, match=r"expected a SentencePiece model, found no file .*none.model"):
        import_sentencepiece(tmp_path / "none.model", imported[2] / "dict.txt")


def test_without_sentencepiece_the_error_names_the_extra(imported, tmp_path):
    _, _, folder = imported
    arguments = ["tokenizer", "import", "--sentencepiece", folder / "a.model", "--dict", folder / "dict.txt"]
    arguments += ["--output", tmp_path / "out"]
    hidden = "import sys; sys.modules['sentencepiece'] = None; from greffe.train.cli import main; sys.exit(main())"
    result = subprocess.run([sys.executable, "-c", hidden, *arguments], capture_output=True, text=True)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].endswith("install it with `pip install greffe[sentencepiece]`")
    assert list(tmp_path.iterdir()) == []
