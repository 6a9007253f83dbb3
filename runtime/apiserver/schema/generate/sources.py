"""Facts about API types from Kubernetes' source: generated.proto, and the Go files beside it.

generated.proto contains the protobuf numbers and types of the fields. Their names in JSON, and whether a field is a
pointer or an inlined struct, are only in the Go files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kcm.runtime.apiserver.schema.generate.documents import Facts

_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_PROTO_FIELD = re.compile(r"^\s+(?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.MULTILINE)
_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_GO_FIELD = re.compile(r"^\t(?:\w+\s+)?(\*?)([\w.\[\]*]+)\s+`([^`]*)`", re.MULTILINE)
_NAMED_AS = re.compile(r"^type (\w+) (?:= )?([\w.]+)$", re.MULTILINE)
_IMPORT = re.compile(r'^(?:import)?\s+(\w*) ?"([\w./-]+)"$', re.MULTILINE)
_JSON = re.compile(r'json:"([^",]*)([^"]*)"')
_PROTOBUF = re.compile(r'protobuf:"\w+,(\d+)')
_WIRE = {
    "string": "string",
    "bytes": "bytes",
    "boolean": "bool",
    "int32": "int32",
    "int64": "int64",
    "double": "double",
}


class MismatchError(ValueError):
    """Kubernetes' source and the OpenAPI documents disagree about a type."""


class ProtoField(NamedTuple):
    """Field of a protobuf message.

    form: "optional", "repeated" or "map".
    type: type of the value, or of an element or map value; with its package if that differs from the message's.
    number: field number on the wire.
    """

    form: str
    type: str
    name: str
    number: int


class GoField(NamedTuple):
    """Field of a Go struct.

    json: name in JSON; "" if the field is an inlined struct.
    number: protobuf field number; 0 if the field is not encoded in protobuf.
    """

    json: str
    number: int
    pointer: bool
    type: str


class GoPackage(NamedTuple):
    """Types of a Go package.

    structs: fields of each struct by its name.
    named_as: full names of the underlying types of the other types, by name.
    """

    structs: dict[str, list[GoField]]
    named_as: dict[str, str]


class Sources:
    """Kubernetes' API packages in a directory, usually a release's staging/src/k8s.io."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._messages: dict[str, Mapping[str, list[ProtoField]]] = {}
        self._go: dict[str, GoPackage] = {}

    def complete(self, name: str, facts: Facts) -> None:
        """Add "pointer" and "number" to the facts about the fields of a type. name: OpenAPI name of the type.

        Raises MismatchError.
        """
        package, _, struct = name.rpartition(".")
        fields: dict[str, Facts] = facts.get("fields", {})
        if not fields:
            return  # a type with its own encoding
        for go in self._flat(package, struct):
            if go.pointer and go.json in fields:
                fields[go.json]["pointer"] = True
        for path, name_in_json, proto in self._numbered(package, struct):
            field = fields.get(name_in_json)
            if field is None:
                continue  # not part of JSON
            expected, found = _wire_type(field), f"{proto.form} {_full_type(proto, package)}"
            if found != expected:
                match field:
                    case {"list": str(element)} if self._is_only_a_list(proto, package, element):
                        path = [*path, 1]
                    case {"map": {"list": str(element)}} if self._is_only_a_list(proto, package, element):
                        pass  # Every list in a map has its own message.
                    case _:
                        raise MismatchError(f"{name}.{name_in_json}: {found} in generated.proto, {expected} in OpenAPI")
            field["number"] = path[0] if len(path) == 1 else path

    def _is_only_a_list(self, proto: ProtoField, package: str, element: str) -> bool:
        """Report whether the message of a field only wraps a list (a named list type in Go).

        element: type of the list's elements; the list is field 1 of the message.
        """
        package, _, message = _full_type(proto, package).rpartition(".")
        return [field[:2] + field[3:] for field in self._message(package, message)] == [("repeated", _WIRE[element], 1)]

    def _flat(self, package: str, struct: str) -> Iterator[GoField]:
        """Yield the fields that a struct has in JSON, including the fields of inlined structs."""
        for field in self._struct(package, struct):
            if field.json:
                yield field
            else:
                yield from self._flat(package, field.type)

    def _numbered(self, package: str, struct: str) -> Iterator[tuple[list[int], str, ProtoField]]:
        """Yield (path, JSON name, field) for every field that is encoded in protobuf.

        path: the field's number, preceded by the numbers of the inlined messages that contain it.
        """
        go_fields = {field.number: field for field in self._struct(package, struct) if field.number}
        for proto in self._message(package, struct):
            go = go_fields.get(proto.number)
            if go is None:
                raise MismatchError(f"{package}.{struct}.{proto.name} is in generated.proto, but in no struct tag")
            if go.json:
                yield [proto.number], go.json, proto
            else:
                where, _, part = _full_type(proto, package).rpartition(".")
                for path, name, inner in self._numbered(where, part):
                    yield [proto.number, *path], name, inner

    def _message(self, package: str, name: str) -> list[ProtoField]:
        if package not in self._messages:
            text = "".join(self._texts(package, "generated.proto"))
            self._messages[package] = {found[1]: list(_proto_fields(found[2])) for found in _MESSAGE.finditer(text)}
        return self._messages[package].get(name, [])

    def _struct(self, package: str, name: str) -> list[GoField]:
        """Return the fields of a Go struct. name: includes the package if it is not `package`."""
        elsewhere, _, name = name.rpartition(".")
        package = elsewhere or package
        if package not in self._go:
            self._go[package] = _go_package(self._texts(package, "*.go"))
        go = self._go[package]
        return self._struct(package, go.named_as[name]) if name in go.named_as else go.structs.get(name, [])

    def _texts(self, package: str, pattern: str) -> Iterator[str]:
        """Yield the contents of a package's files that match a pattern. io.k8s.api.core.v1 is in api/core/v1.

        Raises MismatchError if the directory does not exist.
        """
        directory = self._directory / package.removeprefix("io.k8s.").replace(".", "/")
        if not directory.is_dir():
            raise MismatchError(f"{package} is in OpenAPI, but {directory} is not a directory")
        for file in sorted(directory.glob(pattern)):
            if not file.name.endswith("_test.go"):
                yield file.read_text(encoding="utf-8")


def _go_package(texts: Iterable[str]) -> GoPackage:
    package = GoPackage({}, {})
    for text in texts:
        imports = {alias or path.rpartition("/")[2]: _package(path) for alias, path in _IMPORT.findall(text)}
        for found in _STRUCT.finditer(text):
            package.structs[found[1]] = list(_go_fields(found[2], imports))
        for name, of in _NAMED_AS.findall(text):
            package.named_as[name] = _in_full(of, imports)
    return package


def _in_full(type_: str, imports: Mapping[str, str]) -> str:
    alias, _, name = type_.rpartition(".")
    return f"{imports[alias]}.{name}" if alias in imports else name


def _package(path: str) -> str:
    """Return the OpenAPI name of a Go package: k8s.io/api/core/v1 → io.k8s.api.core.v1."""
    return "io.k8s." + path.removeprefix("k8s.io/").replace("/", ".")


def _proto_fields(body: str) -> Iterator[ProtoField]:
    for form, type_, of_map, name, number in _PROTO_FIELD.findall(body):
        yield ProtoField(form or "map", of_map or type_, name, int(number))


def _go_fields(body: str, imports: Mapping[str, str]) -> Iterator[GoField]:
    for pointer, type_, tags in _GO_FIELD.findall(body):
        json, protobuf = _JSON.search(tags), _PROTOBUF.search(tags)
        if json is None or json[1] == "-":
            continue
        inline = not json[1] or "inline" in json[2]
        yield GoField(
            "" if inline else json[1], int(protobuf[1]) if protobuf else 0, bool(pointer), _in_full(type_, imports)
        )


def _wire_type(field: Facts) -> str:
    for form, of in (("optional", "type"), ("repeated", "list"), ("map", "map")):
        if isinstance(field.get(of), str):
            return f"{form} {_WIRE.get(field[of], field[of])}"
    return str({of: field[of] for of in ("list", "map") if of in field})


def _full_type(field: ProtoField, package: str) -> str:
    """Return the OpenAPI name of a protobuf type: .k8s.io.api.core.v1.Pod → io.k8s.api.core.v1.Pod."""
    type_ = field.type
    if type_.lstrip(".").startswith("k8s.io."):
        type_ = "io.k8s." + type_.lstrip(".").removeprefix("k8s.io.").replace("_", "-")
    elif type_ not in _WIRE.values():
        type_ = f"{package}.{type_}"
    return type_
