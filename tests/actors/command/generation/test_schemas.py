"""Structural schemas of models: the schema of each kind of type, and types without a schema."""

from __future__ import annotations

import datetime
import enum
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from msgspec import Meta

from kcm.actors.command.generation.schemas import SchemaError, add_rule, inexpressible, schema_of
from kcm.manifests import CelRule, cel, list_map
from kcm.objects import ObjectMeta


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Port:
    """Port of a website."""

    name: str
    number: Annotated[int, Meta(gt=0, le=65535)]


class Inner(msgspec.Struct):
    size: int = 1


@dataclass
class Tree:
    children: list[Tree] = field(default_factory=list)


CASES: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (Any, {"x-kubernetes-preserve-unknown-fields": True}),
    (int | str, {"x-kubernetes-int-or-string": True}),
    (dict, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    (dict[str, Any], {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (set[str], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
    (Colour, {"type": "string", "enum": ["blue", "red"]}),
    (Annotated[str, Meta(min_length=1, pattern="^a")], {"type": "string", "minLength": 1, "pattern": "^a"}),
    (
        Annotated[int, Meta(gt=0, lt=9)],
        {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": True},
    ),
    (Annotated[int, Meta(multiple_of=5)], {"type": "integer", "multipleOf": 5}),
    (Annotated[list[int], Meta(max_length=3)], {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
    (bytes, {"type": "string", "format": "byte"}),
    (
        Annotated[list[Port], list_map("name")],
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "description": "Port of a website.",
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "number": {"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": 65535},
                },
                "required": ["name", "number"],
            },
        },
    ),
    (
        Annotated[str, Meta(min_length=2), cel("self == oldSelf", "is fixed")],
        {
            "type": "string",
            "minLength": 2,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}],
        },
    ),
    (
        dict[Annotated[str, Meta(pattern=r"^\w'")], int],
        {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "x-kubernetes-validations": [
                {"rule": r"self.all(key, key.matches('^\\w\''))", "message": r"keys must match ^\w'"}
            ],
        },
    ),
    (Inner, {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}),
]


def schema_of_field(kind: Any, **more: Any) -> Any:
    model = msgspec.defstruct("Model", [("field", kind)] if not more else [("field", kind, more["default"])])
    return schema_of(model)


@pytest.mark.parametrize(("kind", "expected"), CASES, ids=lambda given: str(given)[:40])
def test_a_required_field_has_the_schema_of_its_type(kind: Any, expected: dict[str, Any]) -> None:
    schema = schema_of_field(kind)
    assert schema["properties"]["field"] == expected
    assert schema["required"] == ["field"]


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (int, 3, {"type": "integer", "default": 3}),
        (int | None, None, {"type": "integer"}),
        (Colour, Colour.RED, {"type": "string", "enum": ["blue", "red"], "default": "red"}),
        (Inner | None, None, {"type": "object", "properties": {"size": {"type": "integer", "default": 1}}}),
    ],
)
def test_a_field_with_a_default_is_optional(kind: Any, default: Any, expected: dict[str, Any]) -> None:
    schema = schema_of_field(kind, default=default)
    assert schema["properties"]["field"] == expected
    assert "required" not in schema


def test_a_required_field_that_may_be_none_is_nullable() -> None:
    assert schema_of_field(int | None)["properties"]["field"] == {"type": "integer", "nullable": True}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (int | list[int], "Model.field: a union of integer, array has no structural schema"),
        (Tree, "Model.field.children[]: Tree contains itself"),
        (tuple[int, str], "Model.field: a tuple of different types has no structural schema"),
        (Literal["a", 1], "Model.field: values of different types have no structural schema"),
        (list[int | dict[str, int]], "Model.field[]: a union of integer, object"),
        (complex, "Model has no JSON schema"),
    ],
    ids=str,
)
def test_a_type_without_a_structural_schema_is_named_with_its_field(kind: Any, text: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(text)):
        schema_of_field(kind)


class Status(msgspec.Struct):
    ready: int = 0
    since: datetime.datetime | None = None


@dataclass
class Website:
    metadata: ObjectMeta
    spec: Inner
    status: Status = field(default_factory=Status)

    def __post_init__(self) -> None:
        pass


def test_metadata_and_defaults_of_the_status_are_left_to_the_server() -> None:
    schema = schema_of(Website)
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["status"] == {
        "type": "object",
        "properties": {"ready": {"type": "integer"}, "since": {"type": "string"}},
    }
    assert schema["required"] == ["spec"]


def test_a_rule_is_added_at_its_path() -> None:
    schema = schema_of(Website)
    add_rule(schema, CelRule("self.size > 1", "too small", at="spec"))
    assert schema["properties"]["spec"]["x-kubernetes-validations"] == [
        {"rule": "self.size > 1", "message": "too small"}
    ]
    with pytest.raises(SchemaError, match=r"a rule is at spec.sizes\[\], and the model has no list 'sizes' there"):
        add_rule(schema, CelRule("true", at="spec.sizes[]"))


class PydanticSpec(pydantic.BaseModel):
    name: str = pydantic.Field(pattern="^[a-z]+$", alias="displayName", frozen=True)
    size: int = pydantic.Field(default=1, ge=1, lt=10)
    mode: Literal["fast"] = "fast"
    note: str | None = None

    @pydantic.field_validator("name")
    @classmethod
    def check(cls, value: str) -> str:
        return value


class PydanticSite(pydantic.BaseModel):
    spec: PydanticSpec


def test_a_pydantic_model_has_its_aliases_and_constraints() -> None:
    assert schema_of(PydanticSite)["properties"]["spec"] == {
        "type": "object",
        "properties": {
            "displayName": {"type": "string", "pattern": "^[a-z]+$"},
            "size": {"type": "integer", "minimum": 1, "maximum": 10, "exclusiveMaximum": True, "default": 1},
            "mode": {"type": "string", "enum": ["fast"], "default": "fast"},
            "note": {"type": "string"},
        },
        "required": ["displayName"],
    }


def test_validators_in_python_are_named() -> None:
    assert list(inexpressible(Website)) == ["Website.__post_init__ is Python code"]
    assert list(inexpressible(PydanticSite)) == [
        "the validator PydanticSpec.check is Python code",
        "PydanticSpec.name is frozen: CelRule('self == oldSelf', at=…)",
    ]
