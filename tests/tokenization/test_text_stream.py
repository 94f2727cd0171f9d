"""Decompression, decoding, and errors that name the place."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os

import pyarrow
import pytest
from greffe.tokenization.text_stream import TextStream


def compress_zst(content: bytes) -> bytes:
    return pyarrow.compress(content, codec="zstd", asbytes=True)


COMPRESS = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".zst": compress_zst,
}


def read(path, errors="strict") -> list[str]:
    with TextStream(path, errors) as stream:
        return list(stream.lines())


@pytest.mark.parametrize("suffix", COMPRESS)
class TestCompressed:
    def test_several_streams_in_one_file(self, tmp_path, suffix):
        path = tmp_path / f"a.txt{suffix}"
        path.write_bytes(COMPRESS[suffix]("é\n".encode() * 50_000) + COMPRESS[suffix](b"fin"))
        assert read(path) == ["é\n"] * 50_000 + ["fin"]

    def test_cut_short(self, tmp_path, suffix):
        path = tmp_path / f"a.txt{suffix}"
        whole = COMPRESS[suffix]("\n".join(os.urandom(50).hex() for _ in range(10_000)).encode())
        path.write_bytes(whole[: len(whole) // 2])
        with pytest.raises(ValueError, match=rf"whole \{suffix} archive, found .*a\.txt\{suffix} damaged or cut short"):
            read(path)

    def test_not_what_the_name_says(self, tmp_path, suffix):
        path = tmp_path / f"a.txt{suffix}"
        path.write_bytes(b"plain text, not an archive\n" * 10)
        with pytest.raises(ValueError, match="damaged or cut short after 0 bytes of text"):
            read(path)

    def test_undecodable_byte_is_placed_in_the_decompressed_text(self, tmp_path, suffix):
        path = tmp_path / f"a.txt{suffix}"
        path.write_bytes(COMPRESS[suffix](b"ligne\n" * 20_000 + b"caf\xe9\n"))
        with pytest.raises(
            ValueError,
            match=rf"UTF-8 in .*a\.txt\{suffix}, found byte 0xe9 at position 120,003 \(line 20,001\).*--errors replace",
        ):
            read(path)
        assert read(path, "replace")[-1] == "caf\ufffd\n"


@pytest.mark.parametrize(
    ("content", "position"),
    [(b"\xff", 0), (b"a\nb\xc3", 3), (b"\xef\xbb\xbfab\x80", 5), ("é\n".encode() + b"\xed\xa0\x80", 3)],
)
def test_position_of_an_undecodable_byte(tmp_path, content, position):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(ValueError, match=rf"byte 0x{content[position]:02x} at position {position} \(line"):
        read(tmp_path / "a.txt")
