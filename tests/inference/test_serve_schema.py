"""What a request may say: the published schema is the one that is checked."""

import inspect
import json
import re

import pytest
from greffe.inference import LanguageModel
from greffe.inference.server.limits import Limits
from greffe.inference.server.schema import generate_schema, predict_schema, read_request

LIMITS = Limits(max_texts=3, max_characters=10, max_new_tokens=50)
PREDICT, GENERATE = predict_schema(LIMITS), generate_schema(LIMITS)


def test_good_requests_get_their_defaults() -> None:
    assert read_request(b'{"texts": ["a", ""]}', PREDICT) == {"texts": ["a", ""]}
    assert read_request('{"texts": ["é"], "top_k": 1}'.encode(), PREDICT) == {"texts": ["é"], "top_k": 1}
    settings = read_request(b'{"prompt": "Le", "temperature": 0, "seed": null}', GENERATE)
    assert settings == {
        "prompt": "Le",
        "max_new_tokens": 50,
        "temperature": 0,
        "top_k": 50,
        "top_p": 1,
        "repetition_penalty": 1,
        "seed": None,
        "stream": False,
    }


def test_defaults_are_those_of_the_model() -> None:
    published = {
        name: part["default"] for name, part in generate_schema(Limits())["properties"].items() if name != "stream"
    }
    parameters = inspect.signature(LanguageModel.generate).parameters
    assert published == {name: parameters[name].default for name in published}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "expected JSON in UTF-8, found b''"),
        (b"{", "expected JSON in UTF-8, found b'{'"),
        (b"\xff\xfe{}", "can't decode byte 0xff"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[]", "expected the request to be of type object, found an array"),
        (b"null", "expected the request to be of type object, found None"),
        (b"{}", "expected the request to have 'texts', found nothing"),
        (b'{"text": "a"}', "names among ['texts', 'top_k'], found 'text'"),
        (b'{"texts": "a"}', "expected texts to be of type array, found 'a'"),
        (b'{"texts": []}', "expected at least 1 items in texts, found 0"),
        (b'{"texts": ["a", "b", "c", "d"]}', "expected at most 3 items in texts, found 4"),
        (b'{"texts": ["a", 1]}', "expected texts[1] to be of type string, found 1"),
        (b'{"texts": ["aaaaaaaaaaa"]}', "expected at most 10 characters in texts[0], found 11"),
        (b'{"texts": ["a\\ud800"]}', "lone surrogate at character 1 of texts[0]"),
        (b'{"texts": ["a"], "top_k": 0}', "expected top_k of at least 1, found 0"),
        (b'{"texts": ["a"], "top_k": true}', "expected top_k to be of type integer, found True"),
        (b'{"texts": ["a"], "top_k": 1.5}', "expected top_k to be of type integer, found 1.5"),
    ],
)
def test_bad_requests_are_refused_in_one_line(body: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        read_request(body, PREDICT)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('"temperature": NaN', "NaN is not a number of JSON"),
        ('"temperature": -0.1', "expected temperature of at least 0, found -0.1"),
        ('"temperature": 1e400', "expected temperature of at most 100, found inf"),
        ('"temperature": 0.0009', "expected temperature of 0, or of at least 0.001, found 0.0009"),
        ('"repetition_penalty": 0.009', "expected repetition_penalty of at least 0.01, found 0.009"),
        ('"top_p": 0', "expected top_p above 0, found 0"),
        ('"top_p": 1.01', "expected top_p of at most 1, found 1.01"),
        ('"max_new_tokens": 51', "expected max_new_tokens of at most 50, found 51"),
        ('"seed": 9223372036854775808', "expected seed of at most 9223372036854775807"),
        ('"seed": "1"', "expected seed to be of type integer or null, found '1'"),
        ('"stream": 1', "expected stream to be of type boolean, found 1"),
    ],
)
def test_bad_settings(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_request(f"{{{setting}}}".encode(), GENERATE)


def test_what_the_schema_allows_the_model_takes(language_model: LanguageModel) -> None:
    """At the very bounds, whole numbers where there are some."""
    for name in ("temperature", "repetition_penalty"):
        part = GENERATE["properties"][name]
        gap = part.get("not", {}).get("exclusiveMaximum", part["minimum"])
        for value in {part["minimum"], gap, part["maximum"], 2}:
            settings = read_request(json.dumps({name: value, "max_new_tokens": 2}).encode(), GENERATE)
            del settings["stream"]
            assert "".join(language_model.generate(**settings))


def test_schemas_are_json() -> None:
    assert json.loads(json.dumps([PREDICT, GENERATE])) == [PREDICT, GENERATE]


@pytest.mark.parametrize(("name", "value"), [("max_texts", 0), ("timeout", 0), ("timeout", float("nan"))])
def test_limits_that_leave_nothing(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"expected --{name} of at least"):
        Limits(**{name: value})
