"""What a request may say, as JSON Schema: the same schema is published and is what requests are checked against."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from greffe.inference.language_model import COLDEST, HOTTEST, LEAST_PENALTY, MOST_PENALTY
from greffe.tokenization.fast_tokenizer import check_unicode

from .limits import Limits

Schema = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_NAMES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def predict_schema(limits: Limits) -> Schema:
    text = {"type": "string", "maxLength": limits.max_characters}
    texts = {"type": "array", "items": text, "minItems": 1, "maxItems": limits.max_texts}
    top_k = {"type": "integer", "minimum": 1, "description": "How many labels to give, the most probable first."}
    return _object({"texts": texts, "top_k": top_k}, required=["texts"])


def generate_schema(limits: Limits) -> Schema:
    """The defaults are those of `LanguageModel.generate`."""
    return _object(
        {
            "prompt": {
                "type": "string",
                "maxLength": limits.max_characters,
                "default": "",
                "description": f"Of at most {limits.max_prompt_tokens:,} tokens.",
            },
            "max_new_tokens": {
                "type": "integer",
                "minimum": 1,
                "maximum": limits.max_new_tokens,
                "default": min(100, limits.max_new_tokens),
            },
            "temperature": {
                "type": "number",
                "minimum": 0,
                "maximum": HOTTEST,
                "not": {"exclusiveMinimum": 0, "exclusiveMaximum": COLDEST},
                "default": 0.8,
                "description": "0 takes the most probable token each time.",
            },
            "top_k": {"type": "integer", "minimum": 0, "default": 50, "description": "0: all tokens."},
            "top_p": {"type": "number", "exclusiveMinimum": 0, "maximum": 1, "default": 1},
            "repetition_penalty": {
                "type": "number",
                "minimum": LEAST_PENALTY,
                "maximum": MOST_PENALTY,
                "default": 1,
            },
            "seed": {"type": ["integer", "null"], "minimum": 0, "maximum": 2**63 - 1, "default": None},
            "stream": {"type": "boolean", "default": False, "description": "Send pieces as server-sent events."},
        }
    )


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


def read_request(body: bytes, schema: Schema) -> dict[str, Any]:
    """The request that a body holds, with the defaults of what it leaves out; ValueError says what is wrong."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("expected JSON, found one that is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"expected JSON in UTF-8, found {body[:40]!r}: {error}") from None
    check_value(value, schema, "the request")
    defaults = {name: part["default"] for name, part in schema["properties"].items() if "default" in part}
    return {**defaults, **value}


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number of JSON")


def check_value(value: Any, schema: Schema, where: str) -> None:
    """Refuse a value that the schema does not allow. The words of JSON Schema that are used above, and no others."""
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    # In Python, True is an integer.
    if not any(isinstance(value, _TYPES[name]) and (name == "boolean") == isinstance(value, bool) for name in names):
        raise ValueError(f"expected {where} to be of type {' or '.join(names)}, found {_show(value)}")
    if isinstance(value, dict):
        _check_object(value, schema, where)
    elif isinstance(value, list):
        _check_size(len(value), schema, "Items", "items", where)
        for number, item in enumerate(value):
            check_value(item, schema["items"], f"{where}[{number}]")
    elif isinstance(value, str):
        _check_size(len(value), schema, "Length", "characters", where)
        check_unicode(value, where)
    elif isinstance(value, (int, float)):
        _check_number(value, schema, where)


def _check_object(value: dict[str, Any], schema: Schema, where: str) -> None:
    known = schema["properties"]
    if unknown := sorted(value.keys() - known.keys()):
        raise ValueError(f"expected {where} to have names among {list(known)}, found {_show(unknown[0])}")
    if missing := [name for name in schema.get("required", []) if name not in value]:
        raise ValueError(f"expected {where} to have {missing[0]!r}, found {sorted(value) or 'nothing'}")
    for name, part in value.items():
        check_value(part, known[name], name)


def _check_size(size: int, schema: Schema, word: str, unit: str, where: str) -> None:
    if size < schema.get(f"min{word}", 0):
        raise ValueError(f"expected at least {schema[f'min{word}']} {unit} in {where}, found {size}")
    if size > schema.get(f"max{word}", size):
        raise ValueError(f"expected at most {schema[f'max{word}']:,} {unit} in {where}, found {size:,}")


def _check_number(value: float, schema: Schema, where: str) -> None:
    if value < schema.get("minimum", value):
        raise ValueError(f"expected {where} of at least {schema['minimum']}, found {_show(value)}")
    if value > schema.get("maximum", value):
        raise ValueError(f"expected {where} of at most {schema['maximum']}, found {_show(value)}")
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        raise ValueError(f"expected {where} above {schema['exclusiveMinimum']}, found {_show(value)}")
    if (gap := schema.get("not")) and gap["exclusiveMinimum"] < value < gap["exclusiveMaximum"]:
        least, most = gap["exclusiveMinimum"], gap["exclusiveMaximum"]
        raise ValueError(f"expected {where} of {least}, or of at least {most}, found {_show(value)}")


def _show(value: Any) -> str:
    """A value in an error: short, on one line, in ASCII."""
    if isinstance(value, (dict, list)):
        return f"an {_NAMES[type(value)]}"
    return ascii(value)[:60]


def describe_api(paths: dict[str, dict[str, Any]], title: str, with_token: bool) -> Schema:
    """The OpenAPI document. `paths` has the method, the summary, and the schemas of request and answer of each."""
    document: Schema = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version("greffe")},
        "paths": {path: {part["method"]: _operation(part)} for path, part in paths.items()},
    }
    if with_token:
        document["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        document["security"] = [{"token": []}]
    return document


def _operation(part: dict[str, Any]) -> Schema:
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    contents = {kind: {"schema": schema} for kind, schema in part["answers"].items()}
    operation: Schema = {
        "summary": part["summary"],
        "responses": {
            "200": {"description": "The answer.", "content": contents},
            "default": {
                "description": "What was expected, what was found, what to do.",
                "content": {"application/json": {"schema": error}},
            },
        },
    }
    if "request" in part:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": part["request"]}}}
    return operation


__all__ = ["check_value", "describe_api", "generate_schema", "predict_schema", "read_request"]
