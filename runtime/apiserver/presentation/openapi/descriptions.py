"""Descriptions of API types and fields for `kubectl explain`, from the installed library lightkube-models.

The library is generated from upstream's OpenAPI. Its source files are parsed instead of imported, because only the
docstrings of its thousand dataclasses are needed. All descriptions are empty if the library is not installed.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from msgspec import Struct

# Package and directory of the library. The package itself may be the client lightkube, which takes 45 ms to import.
PACKAGE, MODELS = "lightkube", "models"

_PARAMETER = re.compile(r"\s*\* \*\*(\w+)\*\* ``[^`]+`` - ?(.*)")


class TypeDescription(Struct, frozen=True, dict=True):
    """Description of an API type and its fields.

    doc: docstring of the type in the library
    """

    doc: str = ""

    @cached_property
    def text(self) -> str:
        return _joined(self.doc.partition("**parameters**")[0].splitlines())

    def of_field(self, name: str) -> str:
        return self._fields.get(name) or self._fields.get(f"{name}_", "")  # Python keywords have a "_" appended

    @cached_property
    def _fields(self) -> Mapping[str, str]:
        described: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in self.doc.partition("**parameters**")[2].splitlines():
            begin = _PARAMETER.match(line)
            if begin:
                lines = described[begin[1]] = [begin[2]]
            else:
                lines.append(line)
        return {name: _joined(text) for name, text in described.items()}


_NONE = TypeDescription()


class Descriptions:
    """Descriptions of all API types. Each module of the library is parsed when one of its types is first requested."""

    def __init__(self, directory: Path | None) -> None:
        """Create an empty cache.

        directory: directory of the library's modules; None if the library is not installed
        """
        self._directory = directory
        self._modules: dict[str, Mapping[str, TypeDescription]] = {}

    def of(self, type_: str) -> TypeDescription:
        """Return the description of a type by its OpenAPI name; all texts are empty if the type is unknown."""
        package, _, name = type_.rpartition(".")
        module = "_".join(package.split(".")[-2:])
        if module not in self._modules:
            self._modules[module] = self._read(module)
        return self._modules[module].get(name, _NONE)

    def _read(self, module: str) -> Mapping[str, TypeDescription]:
        path = None if self._directory is None else self._directory / f"{module}.py"
        if path is None or not path.is_file():
            return {}
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = (node for node in tree.body if isinstance(node, ast.ClassDef))
        return {node.name: TypeDescription(ast.get_docstring(node) or "") for node in classes}


def installed_descriptions() -> Descriptions:
    spec = importlib.util.find_spec(PACKAGE)
    places = None if spec is None else spec.submodule_search_locations
    found = (Path(place) / MODELS for place in places or ())
    return Descriptions(next((directory for directory in found if directory.is_dir()), None))


def _joined(lines: Iterable[str]) -> str:
    return " ".join(stripped for line in lines if (stripped := line.strip()))
