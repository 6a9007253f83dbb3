"""CustomResourceDefinitions and their objects. Each scenario has its own API group."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, real_sender
from tests.runtime.apiserver.contracts.requests import JSON, JSON_PATCH, MERGE, Given, Send

Body = dict[str, Any]
# (method, path below that of the group, body), optionally with type and query
Step = tuple[Any, ...]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "widgets.$group"
OBJECTS = "v1/namespaces/contract/widgets"
STRING, INTEGER, NUMBER, BOOLEAN = ({"type": name} for name in ("string", "integer", "number", "boolean"))
ANY = {"x-kubernetes-preserve-unknown-fields": True}


def obj(**properties: Any) -> Body:
    return {"type": "object", "properties": properties}


def array(items: Any, **more: Any) -> Body:
    return {"type": "array", "items": items, **more}


def version(schema: Any = None, name: str = "v1", **more: Any) -> Body:
    shown = {} if schema is None else {"schema": {"openAPIV3Schema": schema}}
    return {"name": name, "served": True, "storage": name == "v1", **shown, **more}


def definition(*versions: Body, names: Body | None = None, **spec: Any) -> Body:
    named = {"plural": "widgets", "kind": "Widget", **(names or {})}
    shown = {"group": "$group", "scope": "Namespaced", "names": named, "versions": list(versions), **spec}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": shown,
    }


def of_spec(schema: Any, **more: Any) -> Body:
    """Return a definition whose objects have a spec with this schema."""
    return definition(version(obj(spec=schema), **more))


def widget(name: str = "w", api: str = "v1", **fields: Any) -> Body:
    meta = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": f"$group/{api}", "kind": "Widget", "metadata": meta, **fields}


def defining(body: Body) -> Step:
    return ("POST", DEFINITIONS, body)


def refused(*bodies: Body) -> list[Step]:
    return [defining(body) for body in bodies]


def creating(spec: Any, name: str = "w", **query: str) -> Step:
    return ("POST", OBJECTS, widget(name, spec=spec), JSON, query)


def changing(patch: Any, name: str = "w", path: str = OBJECTS, type_: str = MERGE) -> Step:
    return ("PATCH", f"{path}/{name}", patch, type_)


def redefining(patch: Any, type_: str = MERGE) -> Step:
    return ("PATCH", f"{DEFINITIONS}/{NAME}", patch, type_)


# Invalid schemas, each with one error.
WRONG_SCHEMAS: dict[str, Any] = {
    "no type": {},
    "an unknown type": {"type": "text"},
    "null": {"type": "null"},
    "no items": {"type": "array"},
    "items without a type": array({}),
    "a list of items": {"type": "array", "items": [STRING]},
    "properties and additionalProperties": {**obj(a=STRING), "additionalProperties": STRING},
    "properties without more": {**obj(a=STRING), "additionalProperties": False},
    "unique items": array(STRING, uniqueItems=True),
    "a reference": {"type": "object", "$ref": "#/definitions/a"},
    "an id": {"type": "object", "id": "a"},
    "definitions": {"type": "object", "definitions": {"a": STRING}},
    "dependencies": {"type": "object", "dependencies": {"a": ["b"]}},
    "patterns of properties": {"type": "object", "patternProperties": {"a": STRING}},
    "more items": array(STRING, additionalItems=STRING),
    "a type in anyOf": {**obj(a=STRING), "anyOf": [{"type": "string"}]},
    "a description in oneOf": {**obj(a=STRING), "oneOf": [{"description": "a"}]},
    "a default in allOf": {**obj(a=STRING), "allOf": [{"properties": {"a": {"default": "x"}}}]},
    "additionalProperties in not": {"type": "object", "not": {"additionalProperties": {"maxLength": 1}}},
    "a property in anyOf alone": {
        **obj(a=STRING),
        "anyOf": [{"required": ["b"], "properties": {"b": {"maxLength": 1}}}],
    },
    "items in not alone": {**obj(a=STRING), "not": {"items": {"maxLength": 1}}},
    "nullable in not": {**obj(a=STRING), "not": {"nullable": True}},
    "a bad pattern": {"type": "string", "pattern": "(a"},
    "a pattern of Perl's": {"type": "string", "pattern": "(?!a)b"},
    "a pattern repeated too often": {"type": "string", "pattern": "a{1001}"},
    "a pattern with a star alone": {"type": "string", "pattern": "*a"},
    "preserve false": {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
    "int or string and preserve": {"x-kubernetes-int-or-string": True, **ANY},
    "an embedded string": {"type": "string", "x-kubernetes-embedded-resource": True},
    "an embedded object without fields": {"type": "object", "x-kubernetes-embedded-resource": True},
    "an embedded map": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "additionalProperties": STRING,
        **ANY,
    },
    "a list type of an object": {"type": "object", "x-kubernetes-list-type": "set"},
    "an unknown list type": array(STRING, **{"x-kubernetes-list-type": "bag"}),
    "a map type of a string": {"type": "string", "x-kubernetes-map-type": "atomic"},
    "an unknown map type": {"type": "object", "x-kubernetes-map-type": "loose"},
    "a set of maps": array(obj(a=STRING), **{"x-kubernetes-list-type": "set"}),
    "a set of sets": array(array(STRING, **{"x-kubernetes-list-type": "set"}), **{"x-kubernetes-list-type": "set"}),
    "keys without a list type": array(obj(a=STRING), **{"x-kubernetes-list-map-keys": ["a"]}),
    "a map without keys": array(obj(a=STRING), **{"x-kubernetes-list-type": "map"}),
    "a map of strings": array(STRING, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
    "a key without a property": array(
        {**obj(a=STRING), "required": ["a"]}, **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b"]}
    ),
    "a key twice": array(
        {**obj(a=STRING), "required": ["a"]},
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "a"]},
    ),
    "a key that is optional": array(
        obj(a=STRING), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}
    ),
    "a key that is a list": array(
        {**obj(a=array(STRING)), "required": ["a"]},
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]},
    ),
    "nullable items of a set": array({**STRING, "nullable": True}, **{"x-kubernetes-list-type": "set"}),
    "a default of another type": {"type": "string", "default": 5},
    "a default too long": {"type": "string", "default": "abc", "maxLength": 2},
    "a default with an unknown field": {**obj(a=STRING), "default": {"b": 1}},
    "a default that lacks what is required": {**obj(a=STRING), "required": ["a"], "default": {}},
    "a rule without text": {"type": "object", "x-kubernetes-validations": [{"rule": " "}]},
    "a rule with an unknown reason": {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "true", "reason": "Bad"}],
    },
    "a message of two lines": {"type": "object", "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]},
}

WRONG_ROOTS: dict[str, Any] = {
    "no type": {"properties": {"spec": {"type": "object"}}},
    "a string": {"type": "string"},
    "nullable": {"type": "object", "nullable": True},
    "a map": {"type": "object", "additionalProperties": STRING},
    "metadata with labels": obj(metadata=obj(labels={"type": "object"})),
    "metadata with a name": obj(metadata=obj(name={"type": "string", "maxLength": 9})),
    "metadata that are a string": obj(metadata=STRING),
    "kind that is an integer": obj(kind=INTEGER),
    "a default in metadata": obj(metadata=obj(name={"type": "string", "default": "a"})),
    "a default of apiVersion": obj(apiVersion={"type": "string", "default": "v1"}),
}


def _wrong_specs() -> list[Body]:
    schema = obj(spec=obj(color=STRING, size=NUMBER, tags=array(STRING)))
    valid_version = version(schema)
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}

    def with_scale(**fields: Any) -> Body:
        return definition(version(schema, subresources={"scale": {**scale, **fields}}))

    def with_column(**fields: Any) -> Body:
        column = {"name": "Color", "type": "string", "jsonPath": ".spec.color", **fields}
        return definition(version(schema, additionalPrinterColumns=[column]))

    def selecting(*paths: str) -> Body:
        return definition(version(schema, selectableFields=[{"jsonPath": path} for path in paths]))

    def converting(**webhook: Any) -> Body:
        review = {"conversionReviewVersions": ["v1"]}
        return definition(valid_version, conversion={"strategy": "Webhook", "webhook": {**review, **webhook}})

    bodies = [
        definition(version()),
        definition(valid_version, scope="Everywhere"),
        definition(valid_version, scope=""),
        definition(valid_version, group="$group-"),
        definition(valid_version, group=""),
        definition(valid_version, names={"plural": "Widgets"}),
        definition(valid_version, names={"plural": "gadgets"}),
        definition(valid_version, names={"kind": "Wid_get"}),
        definition(valid_version, names={"kind": ""}),
        definition(valid_version, names={"listKind": "Widget"}),
        definition(valid_version, names={"shortNames": ["w", "W"], "categories": ["a.b"]}),
        definition(valid_version, preserveUnknownFields=True),
        definition(version(schema, deprecationWarning="old")),
        definition(version(schema, deprecated=True, deprecationWarning="")),
        definition(version(schema, deprecated=True, deprecationWarning="a\tb")),
        with_scale(specReplicasPath="spec.replicas"),
        with_scale(specReplicasPath=".status.replicas", statusReplicasPath=".spec.replicas"),
        with_scale(specReplicasPath=""),
        with_scale(labelSelectorPath=".metadata.a"),
        with_column(type="text"),
        with_column(format="long"),
        with_column(name="", jsonPath="spec.color"),
        selecting(".spec.none"),
        selecting(".spec.tags"),
        selecting(".spec.color", ".spec.color"),
        selecting("spec.color"),
        selecting(".spec['color']"),
        selecting(""),
        definition(valid_version, conversion={"strategy": "Other"}),
        definition(valid_version, conversion={"strategy": "Webhook"}),
        definition(valid_version, conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}),
        converting(),
        converting(clientConfig={}),
        converting(clientConfig={"url": "http://u:p@a/b?c#d"}),
        converting(clientConfig={"url": "https://a"}, conversionReviewVersions=["v2", "v2", "A"]),
        converting(clientConfig={"service": {"name": "a", "namespace": "b", "port": 0, "path": "a//B"}}),
        definition(version({**ANY}, subresources={"status": {}})),
    ]
    return bodies


# Values of a spec with these fields, each created with another name.
RICH = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "kind": {"type": "string", "enum": ["one", "two"]},
        "level": {"type": "integer", "enum": [1, 2]},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 10},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1.5},
        "step": {"type": "integer", "multipleOf": 5},
        "even": {"type": "number", "multipleOf": 0.5},
        "on": BOOLEAN,
        "port": {"x-kubernetes-int-or-string": True},
        "limit": {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": "^[0-9]+%$",
        },
        "tags": array(STRING, minItems=1, maxItems=2),
        "labels": {"type": "object", "additionalProperties": STRING, "maxProperties": 2, "minProperties": 1},
        "nested": {**obj(a=STRING, b=array(obj(c=INTEGER))), "required": ["a"]},
        "maybe": {"type": "string", "nullable": True},
        "never": {"type": "string"},
        "either": {**obj(a=STRING, b=STRING), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "some": {**obj(a=STRING, b=STRING), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "every": {"type": "string", "allOf": [{"minLength": 2}, {"maxLength": 3}, {"pattern": "^a"}]},
        "not": {"type": "string", "not": {"enum": ["bad"]}},
        "date": {"type": "string", "format": "date-time"},
        "set": array(STRING, **{"x-kubernetes-list-type": "set"}),
        "numbers": array(INTEGER, **{"x-kubernetes-list-type": "set"}),
        "map": array(
            {**obj(key=STRING, value=STRING), "required": ["key"]},
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
        ),
        "pairs": array(
            {**obj(a=STRING, b={"type": "integer", "default": 1}, c=STRING), "required": ["a"]},
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]},
        ),
    },
}
GIVEN: list[Any] = [
    {},
    None,
    "text",
    [],
    {"name": "a"},
    {"name": "abcdef"},
    {"name": "ABC"},
    {"name": "äöü"},
    {"name": 5},
    {"name": None},
    {"name": "ab", "kind": "three"},
    {"name": "ab", "kind": 1},
    {"name": "ab", "level": 3},
    {"name": "ab", "level": 1.0},
    {"name": "ab", "replicas": 11},
    {"name": "ab", "replicas": -1},
    {"name": "ab", "replicas": 1.5},
    {"name": "ab", "replicas": 5000000000},
    {"name": "ab", "replicas": "3"},
    {"name": "ab", "replicas": 3.0},
    {"name": "ab", "ratio": 0},
    {"name": "ab", "ratio": 2},
    {"name": "ab", "ratio": 1.75},
    {"name": "ab", "ratio": "1"},
    {"name": "ab", "step": 7},
    {"name": "ab", "even": 0.75},
    {"name": "ab", "even": 3},
    {"name": "ab", "on": "true"},
    {"name": "ab", "port": 80},
    {"name": "ab", "port": "http"},
    {"name": "ab", "port": 1.5},
    {"name": "ab", "port": True},
    {"name": "ab", "limit": "5%"},
    {"name": "ab", "limit": "5"},
    {"name": "ab", "limit": 5},
    {"name": "ab", "tags": []},
    {"name": "ab", "tags": ["a", "b", "c"]},
    {"name": "ab", "tags": [1]},
    {"name": "ab", "tags": {"a": 1}},
    {"name": "ab", "labels": {}},
    {"name": "ab", "labels": {"a": "1", "b": "2", "c": "3"}},
    {"name": "ab", "labels": {"a": 1}},
    {"name": "ab", "nested": {"b": [{"c": 1}, {"c": "x"}]}},
    {"name": "ab", "nested": {"a": "x", "b": [None, {"d": 1}]}},
    {"name": "ab", "maybe": None},
    {"name": "ab", "never": None},
    {"name": "ab", "either": {}},
    {"name": "ab", "either": {"a": "1", "b": "2"}},
    {"name": "ab", "either": {"a": 1}},
    {"name": "ab", "some": {}},
    {"name": "ab", "every": "b"},
    {"name": "ab", "every": "abcd"},
    {"name": "ab", "not": "bad"},
    {"name": "ab", "date": "yesterday"},
    {"name": "ab", "date": "2020-01-01T00:00:00Z"},
    {"name": "ab", "date": 5},
    {"name": "ab", "set": ["a", "b", "a", "a"]},
    {"name": "ab", "numbers": [1, 2, 1]},
    {"name": "ab", "map": [{"key": "a"}, {"key": "a", "value": "b"}]},
    {"name": "ab", "map": [{"value": "a"}]},
    {"name": "ab", "map": ["a"]},
    {"name": "ab", "pairs": [{"a": "x"}, {"a": "x", "b": 2}]},
    {"name": "ab", "pairs": [{"a": "x"}, {"a": "x", "b": 1}]},
    {"name": "ab", "unknown": {"a": 1}, "nested": {"a": "x", "more": [1]}},
]

FORMATS: dict[str, list[str]] = {
    "date": ["2020-02-29", "2021-02-29", "2020-1-1"],
    "date-time": [
        "2020-01-01T00:00:00Z",
        "2020-01-01t00:00:00.5+01:00",
        "2020-01-01 00:00:00Z",
        "2020-01-01T24:00:00Z",
    ],
    "datetime": ["2020-01-01T00:00:00Z", "x"],
    "duration": ["1h5m", "3 days", "1.5h", "abc", "5", "-1s"],
    "uuid": ["123e4567-e89b-12d3-a456-426614174000", "123E4567E89B12D3A456426614174000", "123"],
    "uuid4": ["123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"],
    "ipv4": ["1.2.3.4", "01.2.3.4", "1.2.3", "1.2.3.256", "::1"],
    "ipv6": ["::1", "1.2.3.4", "::ffff:1.2.3.4", "1::2::3"],
    "cidr": ["10.0.0.0/8", "::1/128", "10.0.0.0", "10.0.0.0/33"],
    "mac": ["01:23:45:67:89:ab", "01-23-45-67-89-ab", "0123.4567.89ab", "01:23:45:67:89", "01:23-45:67:89:ab"],
    "uri": ["https://a.b/c?d#e", "/path", "a.b", "http://[::1]:80/", "", "mailto:a@b", "http://a b/"],
    "email": ["a@b.c", "A <a@b.c>", "a", "a@", "@b"],
    "hostname": ["a.b.com", "a", "a_b", "-a.com", "a..b", "example.com."],
    "byte": ["YWJj", "YWI=", "YW", "a*==", ""],
    "isbn": ["0321751043", "978-0321751041", "0321751044"],
    "isbn10": ["0321751043", "123"],
    "isbn13": ["978-0321751041", "978-0321751042"],
    "creditcard": ["4111 1111 1111 1111", "4111111111111112"],
    "ssn": ["111-11-1111", "111111111"],
    "hexcolor": ["#fff", "ffffff", "#ffff"],
    "rgbcolor": ["rgb(1, 2,255)", "rgb(1,2,256)"],
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507f"],
    "password": ["x"],
    "k8s-short-name": ["a-b", "A", "a.b"],
    "k8s-long-name": ["a.b", "a..b", "A.b"],
    "int32": ["any"],
    "nonsense": ["any"],
}


def _formats() -> list[Step]:
    names = {f"f{i}": {"type": "string", "format": name} for i, name in enumerate(FORMATS)}
    steps = [defining(of_spec(obj(**names)))]
    for i, texts in enumerate(FORMATS.values()):
        steps += [creating({f"f{i}": text}, f"f{i}-{j}", dryRun="All") for j, text in enumerate(texts)]
    return steps


_DEFAULTED = obj(
    color={"type": "string", "default": "red"},
    size={**obj(width={"type": "integer", "default": 1}, height=INTEGER), "default": {"height": 2}},
    parts=array(obj(name=STRING, count={"type": "integer", "default": 1})),
    by_name={"type": "object", "additionalProperties": obj(on={"type": "boolean", "default": True})},
    nullable={"type": "string", "nullable": True, "default": "x"},
    plain={"type": "string"},
    loose={**ANY, "type": "object", "properties": {"known": obj(a=STRING)}},
    free={**ANY},
    any_map={"type": "object", "additionalProperties": True},
    embedded={"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": obj(a=STRING)}},
)

_RATCHETED = obj(
    name={"type": "string", "maxLength": 3},
    items=array(
        {**obj(key=STRING, value={"type": "string", "maxLength": 2}), "required": ["key"]},
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
    ),
    list=array({"type": "string", "maxLength": 2}),
    set=array(STRING),
    by_name={"type": "object", "additionalProperties": {"type": "integer", "maximum": 5}},
    other=STRING,
)


def _loosened() -> Any:
    """Return the schema without limits."""
    text = re.sub(r', "max\w+": \d+', "", json.dumps(_RATCHETED))
    return json.loads(text.replace('"maximum": 5', '"nullable": false'))


_STATUS = obj(spec=obj(a=INTEGER), status=obj(phase={"type": "string", "enum": ["Up", "Down"]}, list=array(STRING)))
_SCALED = obj(
    spec=obj(replicas=INTEGER, other=STRING, deep=obj(count={"type": "integer"})),
    status=obj(replicas=INTEGER, selector=STRING),
)
_SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}

SCENARIOS: dict[str, list[Step]] = {
    "schemas that are refused": refused(*(of_spec(schema) for schema in WRONG_SCHEMAS.values())),
    "roots that are refused": refused(*(definition(version(schema)) for schema in WRONG_ROOTS.values())),
    "definitions that are refused": refused(*_wrong_specs()),
    "a definition is served": [
        defining(of_spec(obj(a=STRING))),
        ("GET", f"{DEFINITIONS}/{NAME}"),
        creating({"a": "b"}),
        ("GET", OBJECTS),
        ("GET", f"{OBJECTS}/w"),
        ("GET", f"{OBJECTS}/none"),
        ("GET", f"{OBJECTS}/w/status"),
        ("GET", f"{OBJECTS}/w/scale"),
        ("POST", OBJECTS, {**widget(), "kind": "Other"}),
        ("POST", OBJECTS, {**widget(), "apiVersion": "$group/v2"}),
        ("POST", OBJECTS, {**widget(), "apiVersion": "v1", "kind": "Pod"}),
        ("POST", OBJECTS, {"kind": "Widget", "metadata": {"name": "x"}}),
        ("POST", OBJECTS, {"apiVersion": "$group/v1", "metadata": {"name": "x"}}),
        ("POST", OBJECTS, widget("A_B")),
        ("POST", OBJECTS, widget("x", metadata={"labels": {"a": 1}})),
        ("POST", OBJECTS, widget("x", metadata={"unknown": 1, "creationTimestamp": None})),
        changing({"spec": {"a": "c"}}, type_="application/strategic-merge-patch+json"),
        changing([{"op": "replace", "path": "/spec/a", "value": "d"}], type_=JSON_PATCH),
        changing({"spec": {"a": 5}}),
        changing({"kind": "Other"}),
        changing({"apiVersion": "$group/v2"}),
        ("PUT", f"{OBJECTS}/w", widget(spec={"a": "e"})),
        ("DELETE", f"{OBJECTS}/w"),
    ],
    "values are validated": [
        defining(of_spec(RICH)),
        *(creating(spec, f"w{i}") for i, spec in enumerate(GIVEN)),
    ],
    "formats": _formats(),
    "pruning and defaults": [
        defining(of_spec(_DEFAULTED)),
        creating({}),
        creating(None, "none"),
        creating({"color": None, "size": {}, "nullable": None, "plain": None, "unknown": 1}, "a"),
        creating({"parts": [{}, {"name": "a", "b": 1}, {"count": None}], "by_name": {"a": {}, "b": {"x": 1}}}, "b"),
        creating({"loose": {"any": {"thing": 1}, "known": {"a": "b", "c": 1}}, "free": {"a": [{"b": None}]}}, "c"),
        creating({"any_map": {"a": {"b": 1}, "c": 2}}, "d"),
        creating(
            {"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "foo": 1}, "other": 1}}, "e"
        ),
        creating({"embedded": {"kind": "pod_", "metadata": {"name": "a/b", "labels": {"a": "b c"}}}}, "f"),
        creating({"embedded": {"apiVersion": 1, "kind": "Pod"}}, "g"),
        creating({"embedded": {"apiVersion": "a/b/c", "kind": "Pod", "metadata": {"labels": {"a": 1}}}}, "h"),
        creating({"embedded": {"apiVersion": "a/b/c", "kind": "Pod", "metadata": {"namespace": "A"}}}, "i"),
        creating({"embedded": {"apiVersion": "", "kind": ""}}, "j"),
    ],
    "a new schema shows at once": [
        defining(of_spec({**obj(a=STRING, b=STRING), "x-kubernetes-preserve-unknown-fields": True})),
        creating({"a": "x", "c": "kept"}),
        redefining(
            {"spec": {"versions": [version(obj(spec=obj(a=STRING, d={"type": "string", "default": "new"})))]}},
        ),
        ("GET", f"{OBJECTS}/w"),
        ("GET", OBJECTS),
        changing({"metadata": {"labels": {"x": "y"}}}),
        changing({"spec": {"a": "z"}}),
    ],
    "what was wrong may stay": [
        defining(of_spec(_loosened())),
        creating(
            {
                "name": "too long",
                "items": [{"key": "a", "value": "long"}, {"key": "b", "value": "ok"}],
                "list": ["long", "a"],
                "by_name": {"a": 9, "b": 1},
                "set": ["a", "a"],
            }
        ),
        redefining({"spec": {"versions": [version(obj(spec=_RATCHETED))]}}),
        changing({"spec": {"other": "x"}}),
        changing({"spec": {"name": "longer"}}),
        changing({"spec": {"items": [{"key": "b", "value": "ok"}, {"key": "a", "value": "long"}]}}),
        changing({"spec": {"items": [{"key": "a", "value": "long"}, {"key": "c", "value": "long"}]}}),
        changing({"spec": {"list": ["long"]}}),
        changing({"spec": {"by_name": {"c": 1}}}),
        changing({"spec": {"by_name": {"c": 8}}}),
        creating({"name": "too long"}, "new"),
    ],
    "status": [
        defining(definition(version(_STATUS, subresources={"status": {}}))),
        ("POST", OBJECTS, widget(spec={"a": 1}, status={"phase": "Up"})),
        ("PATCH", f"{OBJECTS}/w/status", {"status": {"phase": "Up"}, "spec": {"a": 2}}, MERGE),
        ("PATCH", f"{OBJECTS}/w/status", {"metadata": {"labels": {"a": "b"}, "finalizers": ["a.b/c"]}}, MERGE),
        ("PATCH", f"{OBJECTS}/w/status", {"status": {"phase": "Sideways"}}, MERGE),
        ("PATCH", f"{OBJECTS}/w/status", {"status": {"list": "a", "unknown": 1}}, MERGE),
        changing({"status": {"phase": "Down"}}),
        changing({"spec": {"a": 5}, "status": {"phase": "Down"}}),
        changing({"metadata": {"annotations": {"a": "b"}}}),
        ("GET", f"{OBJECTS}/w/status"),
    ],
    "without a status": [
        defining(definition(version(_STATUS))),
        ("POST", OBJECTS, widget(spec={"a": 1}, status={"phase": "Up"})),
        changing({"status": {"phase": "Down"}}),
        changing({"status": {"phase": "Sideways"}}),
        ("PATCH", f"{OBJECTS}/w/status", {"status": {"phase": "Up"}}, MERGE),
    ],
    "scale": [
        defining(definition(version(_SCALED, subresources={"status": {}, "scale": _SCALE}))),
        creating({"replicas": 2}),
        creating({"other": "x"}, "bare"),
        ("GET", f"{OBJECTS}/w/scale"),
        ("GET", f"{OBJECTS}/bare/scale"),
        ("PATCH", f"{OBJECTS}/w/status", {"status": {"replicas": 1, "selector": "a=b"}}, MERGE),
        ("PATCH", f"{OBJECTS}/w/scale", {"spec": {"replicas": 5}}, MERGE),
        ("PATCH", f"{OBJECTS}/w/scale", {"spec": {"replicas": -1}}, MERGE),
        ("PATCH", f"{OBJECTS}/bare/scale", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        ("PATCH", f"{OBJECTS}/bare/scale", {"spec": {"replicas": 3}}, MERGE),
        ("PUT", f"{OBJECTS}/w/scale", {"metadata": {"name": "w"}, "spec": {"replicas": 7}}),
        ("PUT", f"{OBJECTS}/w/scale", {"metadata": {"name": "w", "resourceVersion": "1"}, "spec": {"replicas": 7}}),
        ("GET", f"{OBJECTS}/w"),
        creating({"replicas": -1}, "negative"),
        creating({"replicas": 5000000000}, "many"),
        creating({"replicas": "two"}, "text"),
        ("PATCH", f"{OBJECTS}/w/status", {"status": {"replicas": -5, "selector": "a="}}, MERGE),
    ],
    "selectable fields": [
        defining(
            definition(
                version(
                    obj(spec=obj(color=STRING, size=INTEGER, on=BOOLEAN, deep=obj(a=STRING))),
                    selectableFields=[{"jsonPath": f".spec.{field}"} for field in ("color", "size", "on", "deep.a")],
                )
            )
        ),
        creating({"color": "red", "size": 1}, "a"),
        creating({"color": "blue", "on": True, "deep": {"a": "x"}}, "b"),
        *(
            ("GET", OBJECTS, None, JSON, {"fieldSelector": text})
            for text in (
                "spec.color=red",
                "spec.color!=red",
                "spec.size=1",
                "spec.size=",
                "spec.on=true",
                "spec.deep.a=x,spec.color=blue",
                "spec.none=x",
                "metadata.name=a",
            )
        ),
    ],
    "names of definitions": [
        defining(of_spec(obj(a=STRING))),
        redefining({"spec": {"scope": "Cluster"}}),
        redefining({"spec": {"names": {"kind": "Gadget"}}}),
        redefining({"spec": {"names": {"plural": "gadgets"}}}),
        redefining({"spec": {"group": "other.example.com"}}),
        redefining({"spec": {"versions": []}}),
        redefining({"spec": {"versions": [version(obj(spec=obj(a=STRING)), name="v2", storage=True)]}}),
        redefining({"spec": {"names": {"shortNames": ["wd"], "categories": ["all"]}}}),
    ],
    "versions": [
        defining(
            definition(
                version(obj(spec=obj(a=STRING, b={"type": "string", "default": "one"}))),
                version(obj(spec=obj(a=STRING, c={"type": "integer", "default": 2})), name="v2"),
                version(obj(spec=obj(a=INTEGER)), name="v3", served=False),
            )
        ),
        creating({"a": "x", "c": 5}),
        ("GET", f"{OBJECTS.replace('v1', 'v2', 1)}/w"),
        ("POST", OBJECTS.replace("v1", "v2", 1), widget("v", "v2", spec={"b": "lost", "a": "y"})),
        ("POST", OBJECTS.replace("v1", "v2", 1), widget("u", "v2", spec={"c": "text"})),
        ("GET", f"{OBJECTS}/v"),
        changing({"spec": {"c": 7}}, path=OBJECTS.replace("v1", "v2", 1)),
        ("GET", f"{OBJECTS}/w"),
        ("GET", OBJECTS.replace("v1", "v2", 1)),
    ],
}


_NOT_SMALLER = "!has(self.value) || !has(oldSelf.value) || self.value >= oldSelf.value"
_ONCE = "!oldSelf.hasValue() || self == oldSelf.value()"
_TOO_HIGH = "self.max < 0 ? 'max is below 0' : 'min is above max'"


def ruled(schema: Body, rule: str, **more: Any) -> Body:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, **more}]}


_SHORT = {"type": "string", "maxLength": 20}
_NAMED = ruled(_SHORT, "self.startsWith('a')")
_RULED = {
    **obj(
        min=INTEGER,
        max=INTEGER,
        name=_NAMED,
        fixed=ruled(_SHORT, "self == oldSelf", message="fixed is immutable"),
        once=ruled(_SHORT, _ONCE, optionalOldSelf=True, reason="FieldValueForbidden"),
        list=array(
            ruled({**obj(key=STRING, value=INTEGER), "required": ["key"]}, _NOT_SMALLER),
            maxItems=5,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
        ),
        by={
            "type": "object",
            "maxProperties": 5,
            "additionalProperties": ruled(INTEGER, "self > 0", reason="FieldValueRequired"),
        },
        port={"x-kubernetes-int-or-string": True},
    ),
    "x-kubernetes-validations": [
        {
            "rule": "!has(self.min) || !has(self.max) || self.min <= self.max",
            "fieldPath": ".min",
            "messageExpression": _TOO_HIGH,
        },
        {"rule": "!has(self.port) || self.port != 5"},
        {"rule": "!has(self.max) || 10 / self.max > 0", "message": "  max is small  ", "reason": "FieldValueDuplicate"},
    ],
}


def _rule(rule: str, **more: Any) -> Body:
    schema = obj(a={"type": "string", "maxLength": 9}, n=INTEGER, free=STRING, list=array(STRING))
    return ruled(schema, rule, **more)


WRONG_RULES: list[Any] = [
    _rule("self.b == 'x'"),
    _rule("self.a"),
    _rule("self.a =="),
    _rule("self.n == 'x'"),
    _rule("self.a == 'x'", messageExpression="self.n"),
    _rule("self.a == 'x'", messageExpression="'n ' + string(self.n) + '!'"),
    _rule("self.a == 'x'", optionalOldSelf=True),
    _rule("self.a == 'x'", fieldPath=".b"),
    _rule("self.list.all(x, self.list.all(y, self.list.all(z, x == y && y == z)))"),
    obj(list=array(ruled(obj(a=STRING), "self == oldSelf"), maxItems=5)),
    obj(a=ruled(STRING, "self == oldSelf"), b=ruled(STRING, "self.size() > 5"), c=ruled(STRING, "self.endsWith('a')")),
    array(ruled(STRING, "self.matches('a.*b')")),
]

SCENARIOS |= {
    "rules that are refused": refused(*(of_spec(schema) for schema in WRONG_RULES)),
    "rules": [
        defining(of_spec(_RULED)),
        creating({"min": 1, "max": 2, "name": "abc", "fixed": "x", "once": "y", "list": [{"key": "a", "value": 3}]}),
        creating({"min": 3, "max": 2}, "a"),
        creating({"name": "bcd"}, "b"),
        creating({"name": "bcd", "min": "x"}, "c"),
        creating({"by": {"a": 0, "b": 1}}, "d"),
        creating({"port": 5}, "e"),
        creating({"port": "5"}, "f"),
        creating({"max": 0}, "g"),
        creating({"max": 11}, "h"),
        changing({"spec": {"fixed": "z"}}),
        changing({"spec": {"once": "z"}}),
        changing({"spec": {"list": [{"key": "b", "value": 1}, {"key": "a", "value": 2}]}}),
        changing({"spec": {"list": [{"key": "b", "value": 1}, {"key": "a", "value": 4}]}}),
        changing({"spec": {"name": "x"}}),
    ],
    "rules that come later": [
        defining(of_spec(obj(name=STRING, other=STRING))),
        creating({"name": "bcd"}),
        redefining({"spec": {"versions": [version(obj(spec=obj(name=_NAMED, other=STRING)))]}}),
        changing({"spec": {"other": "x"}}),
        changing({"spec": {"name": "b"}}),
        changing({"spec": {"name": "a"}}),
    ],
}


def play(scenario: str, send: Send) -> list[dict[str, Any]]:
    """Return the responses to a scenario, without the parts that differ from run to run."""
    group = f"{scenario.replace(' ', '-')}.example.com"
    answers, words = [], dict[str, str]()
    for step in SCENARIOS[scenario]:
        method, path, *rest = step
        body, type_, query = [*rest, *(None, JSON, {})[len(rest) :]]
        if not path.startswith("/"):
            path = f"/apis/$group/{path}".rstrip("/")
        raw = b"" if body is None else json.dumps(body).replace("$group", group).encode()
        status, answer = send(Given(method, path.replace("$group", group), raw, type_, dict(query)))
        requests.learn(answer, words)
        answers.append({"status": status, "body": _ordered(requests.plain(answer, words, requests.DROPPED))})
    send(Given("DELETE", f"{DEFINITIONS}/{NAME}".replace("$group", group), b"", JSON, {}))
    return answers


def _ordered(answer: Any) -> Any:
    """Sort the causes of an error: upstream's order is that of iteration over Go's maps."""
    causes = (answer.get("details") or {}).get("causes") or ()
    if len(causes) > 1:
        ordered = sorted(causes, key=lambda cause: (cause["field"], cause["message"]))
        return {**answer, "message": "", "details": {**answer["details"], "causes": ordered}}
    return answer


def patiently(send: Send) -> Send:
    """Wait after changes of definitions, because kube-apiserver serves them with a delay."""

    def sent(given: Given) -> tuple[int, Any]:
        status, answer = send(given)
        if DEFINITIONS in given.path and given.method in ("POST", "PATCH") and status in (200, 201):
            _until_served(send, answer)
            time.sleep(2.0)
        return status, answer

    return sent


def _until_served(send: Send, definition: Body) -> None:
    spec = definition["spec"]
    name = next(version["name"] for version in spec["versions"] if version.get("served"))
    path = f"/apis/{spec['group']}/{name}/{spec['names']['plural']}"
    for _ in range(100):
        if send(Given("GET", path, b"", JSON, {}))[0] == 200:
            return
        time.sleep(0.1)
    raise AssertionError(f"{path} is not served")


@contextmanager
def _real(directory: Path, assets: Path) -> Iterator[Callable[[str], Send]]:
    with real_sender(directory, assets) as send:
        send(Given("POST", "/api/v1/namespaces", b'{"metadata": {"name": "contract"}}', JSON, {}))
        yield lambda _scenario: patiently(send)


CONTRACT = Contract("custom_resources", SCENARIOS, play, embedded=embedded(), real=_real)
