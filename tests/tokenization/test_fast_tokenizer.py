"""The settings that both stages need, in an environment without Greffe too."""

from __future__ import annotations

import json
import subprocess
import sysconfig
import venv

import pytest
import torch
from greffe.modeling import GreffeConfig, GreffeForMaskedLM
from greffe.tokenization import encode_documents, load_tokenizer, save_tokenizer
from transformers import AutoTokenizer, pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory, bpe):
    folder = tmp_path_factory.mktemp("tokenizers") / "bpe"
    save_tokenizer(bpe, folder)
    return folder


WITHOUT_GREFFE = """
import json, sys
from importlib.util import find_spec
from transformers import AutoTokenizer

assert find_spec("greffe") is None, "this environment should not have Greffe"
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
batch = tokenizer(["un </s> deux", "a"], padding=True)
print(json.dumps({
    "batch": dict(batch),
    "decoded": tokenizer.decode(batch["input_ids"][0], skip_special_tokens=True),
    "tokens": [tokenizer.bos_token, tokenizer.pad_token, tokenizer.eos_token, tokenizer.mask_token],
    "settings": [len(tokenizer), tokenizer.model_max_length, tokenizer.padding_side, tokenizer.truncation_side],
}))
"""


def test_an_environment_without_greffe_reads_it(tmp_path, folder, bpe):
    # A bare environment that borrows the installed packages: .pth files inside them, where an editable Greffe would
    # come from, are not followed.
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    python = tmp_path / "bare" / "bin" / "python"
    command = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    with open(f"{site}/borrowed.pth", "w") as file:
        file.write("\n".join(paths))
    result = subprocess.run(
        [python, "-c", WITHOUT_GREFFE, folder], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    found = json.loads(result.stdout)
    assert found["batch"] == dict(bpe(["un </s> deux", "a"], padding=True))
    assert found["batch"]["input_ids"][1][:1] == [0]
    assert found["batch"]["input_ids"][1][2:] == [1] * (len(found["batch"]["input_ids"][0]) - 2)
    assert found["decoded"] == "un </s> deux"
    assert found["tokens"] == ["<s>", "<pad>", "</s>", "<mask>"]
    assert found["settings"] == [500, 512, "right", "right"]


def test_saving_what_was_loaded_gives_the_same_tokenizer(tmp_path, folder):
    save_tokenizer(load_tokenizer(folder), tmp_path / "again")
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


def test_a_prompt_starts_with_the_beginning_and_does_not_end(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("balo mi")["input_ids"]
    assert ids[0] == tokenizer.bos_token_id
    assert tokenizer.eos_token_id not in ids


def test_truncation_keeps_the_beginning(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("balo mi " * 1000, truncation=True)["input_ids"]
    assert len(ids) == 512
    assert ids == tokenizer("balo mi " * 1000, verbose=False)["input_ids"][:512]


def test_documents_end_and_are_never_cut(bpe, capsys, caplog):
    documents = ["un </s> deux", "balo mi " * 1000, ""]
    encoded = encode_documents(bpe, documents)
    for ids, document in zip(encoded, documents, strict=True):
        assert (ids[0], ids[-1]) == (0, 2)
        assert not {0, 1, 2, 3} & set(ids[1:-1])
        assert bpe.decode(ids[1:-1]) == document
    assert caplog.records == []  # no warning about length
    assert encode_documents(bpe, []) == []


def test_documents_are_text_whatever_the_tokenizer_was_loaded_with(folder, bpe):
    tokenizer = AutoTokenizer.from_pretrained(folder, split_special_tokens=False)
    assert encode_documents(tokenizer, ["a</s><mask>"]) == encode_documents(bpe, ["a</s><mask>"])


def test_documents_need_a_beginning_and_an_end(folder):
    tokenizer = load_tokenizer(folder)
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="found bos_token='<s>' and eos_token=None"):
        encode_documents(tokenizer, ["a"])


def test_lone_surrogates_are_refused(bpe):
    with pytest.raises(ValueError, match=r"lone surrogate at character 2 of document 1; replace it"):
        encode_documents(bpe, ["a", "bc\ud83d"])
    with pytest.raises(TypeError):  # the library's own refusal, less clear
        bpe("bc\ud83d")


def test_control_tokens_can_be_written_where_asked(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("balo</s>", split_special_tokens=False)["input_ids"][-1] == 2
    assert tokenizer("balo</s>")["input_ids"][-1] != 2  # the call before has left nothing behind
    loaded = AutoTokenizer.from_pretrained(folder, split_special_tokens=False)
    assert loaded("balo</s>")["input_ids"][-1] == 2


def test_fill_mask(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder, split_special_tokens=False)
    config = GreffeConfig(vocab_size=len(tokenizer), hidden_size=8, num_hidden_layers=1)
    torch.manual_seed(0)
    fill = pipeline("fill-mask", model=GreffeForMaskedLM(config), tokenizer=tokenizer)
    # The mask takes the space before it, as the pieces that it stands for do.
    assert tokenizer("balo <mask> mi")["input_ids"] == [
        *tokenizer("balo")["input_ids"],
        3,
        *tokenizer(" mi", add_special_tokens=False)["input_ids"],
    ]
    assert len(fill("balo <mask> mi", top_k=3)) == 3


def test_load_says_what_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"expected tokenizer.json in .*nowhere, found no such folder"):
        load_tokenizer(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"found \['config.json'\]; make one with `greffe tokenizer train`"):
        load_tokenizer(tmp_path)
