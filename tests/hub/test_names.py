"""Names that may become paths, and those that may not, on any platform."""

from pathlib import Path, PureWindowsPath

import pytest
from greffe.hub.names import check_file_path, check_reference, check_repo_id, split_name
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("name", ["team/name", "t/n", "Team-1/Name_2.3", "a" * 96 + "/" + "b" * 96])
def test_repositories(name: str) -> None:
    assert check_repo_id(name) == name


HOSTILE = [
    "", "..", "../name", "team/..", "../../etc/passwd", "/etc/passwd", "/team/name", "team/name/", "team//name",
    "C:/name", "C:\\name", "team\\name", "team/na\0me", "team/na\nme", "\0", "a" * 97 + "/b", "team/" + "b" * 500,
    "team/name.git", "team/a--b", "a--b/c", "team/.hidden", "team/-x", "con/name", "team/NUL", "team/lpt1.txt",
    "team/com¹", "team/na me", "team/имя", "team/%2e%2e", "team/name\u202e", "~/name", "team/name/more",
    "name", "$HOME/x",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_repositories(name: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a name of the form organisation/name, found"):
        check_repo_id(name)


@pytest.mark.parametrize("name", ["v1", "v1.0-rc_2", "main", "2024", "abc1234"])
def test_references(name: str) -> None:
    assert check_reference(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../main",
        "a/b",
        "/v1",
        "v\0",
        "-v",
        "v 1",
        "a" * 97,
        "0" * 40,
        "x.lock",
        "nul",
        "a..b",
        "v1.",
        "é",
    ],
)
def test_hostile_references(name: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a tag such as v1, found"):
        check_reference(name)


@pytest.mark.parametrize(
    "path", ["a", "config.json", "a/b/c.txt", "é.txt", "naïve file.md", "..a", "a..b", "-x", "a" * 255]
)
def test_files(path: str) -> None:
    assert check_file_path(path) == path


HOSTILE_FILES = [
    "", ".", "..", "../a", "a/../b", "a/..", "/a", "//a", "a//b", "a/", "./a", "C:/a", "C:a", "a\\b", "..\\a", "a\0b",
    "a\nb", "a" * 256, "é" * 128, "a/" * 600 + "b", "nul", "a/CON.txt", "aux .txt", "a.", "a ", "a/b.", ".git/config",
    "x/.GIT/y",     ".cache/huggingface/x", "a:stream", "a|b", "a*", "\ud800", "\\\\server\\share",
]  # fmt: skip


@pytest.mark.parametrize("path", HOSTILE_FILES)
def test_hostile_files(path: str) -> None:
    with pytest.raises(ValueError, match=r"^expected the path of a file inside the repository, found"):
        check_file_path(path)


@given(st.text(alphabet=st.sampled_from("aZ.é/\\: \0*nulcom1-_~"), max_size=12) | st.text(max_size=8))
def test_accepted_paths_stay_inside_everywhere(path: str) -> None:
    try:
        check_file_path(path)
    except ValueError:
        return
    assert [*PureWindowsPath(path).parts] == path.split("/")
    assert not PureWindowsPath(path).drive
    assert not PureWindowsPath(path).is_reserved()
    assert (Path("/hub") / path).resolve().is_relative_to("/hub")


def test_names_with_revisions() -> None:
    assert split_name("team/name") == ("team/name", "main")
    assert split_name("team/name@v1") == ("team/name", "v1")
    assert split_name(f"team/name@{'0' * 40}") == ("team/name", "0" * 40)
    for name in ("team/name@", "team/name@../x", "team/name@v1@v2", "@v1"):
        with pytest.raises(ValueError, match=r"^expected a"):
            split_name(name)
