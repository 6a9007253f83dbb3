"""The fields of every built-in API type: their types, which are required, and what they are for.

They come from the library lightkube-models, which is generated from upstream's OpenAPI. Its sources are read, not
imported: we want its type annotations and docstrings, and no thousand dataclasses; a module is read when somebody asks
for one of its types.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

LIBRARY = "lightkube.models"

# Fields of kind "map" whose values are quantities: the library says no more than that they are maps.
QUANTITY_MAPS = {
    "allocatable",
    "allocatedResources",
    "capacity",
    "default",
    "defaultRequest",
    "hard",
    "limits",
    "max",
    "maxLimitRequestRatio",
    "min",
    "overhead",
    "podFixed",
    "requests",
    "used",
}


class ModelName(NamedTuple):
    """module: the group's first word and the version, "apps_v1"; groups without a word: "core_v1"."""

    module: str
    name: str


class FieldType(NamedTuple):
    """kind: "string", "integer", "number", "boolean", "time", "micro_time", "quantity", "int_or_string", "map" (keys
    are the user's), "object" (any fields), "any", or "model". many: a list of these.
    """

    kind: str
    model: ModelName | None = None
    many: bool = False


class Field(NamedTuple):
    """name: as JSON spells it."""

    name: str
    type: FieldType
    required: bool


@dataclass(frozen=True)
class Model:
    """One API type."""

    name: ModelName
    fields: Mapping[str, Field]
    doc: str

    @cached_property
    def description(self) -> str:
        return _joined(self.doc.partition("**parameters**")[0].splitlines())

    @cached_property
    def field_descriptions(self) -> Mapping[str, str]:
        """Field name as the library spells it → text; a name that is a Python keyword ends in "_" there."""
        described: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in self.doc.partition("**parameters**")[2].splitlines():
            begin = _PARAMETER.match(line)
            if begin:
                lines = described[begin[1]] = [begin[2]]
            else:
                lines.append(line)
        return {name: _joined(text) for name, text in described.items()}

    def describe(self, field: str) -> str:
        return self.field_descriptions.get(field) or self.field_descriptions.get(f"{field}_", "")


_PARAMETER = re.compile(r"\s*\* \*\*(\w+)\*\* ``[^`]+`` - ?(.*)")
_PLAIN = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "dict": "map"}
_SHARED = {
    "resource.Quantity": "quantity",
    "util_intstr.IntOrString": "int_or_string",
    "runtime.RawExtension": "object",
}
_MODULES = {"": "core", "internal.apiserver.k8s.io": "apiserverinternal"}


def model_of(group: str, version: str, kind: str) -> ModelName:
    """Where the library keeps a kind, if it has it: it has only groups of Kubernetes' own."""
    if "." in group and not group.endswith(".k8s.io"):
        return ModelName("", kind)
    return ModelName(f"{_MODULES.get(group) or group.partition('.')[0]}_{version}", kind)


class Models:
    """All types, by name; modules are read once each."""

    def __init__(self, directory: Path) -> None:
        """directory: the library's modules; see installed_models."""
        self._directory = directory
        self._modules: dict[str, Mapping[str, Model]] = {}

    def find(self, name: ModelName) -> Model | None:
        """None for what upstream does not define, as custom resources."""
        module = self._modules.get(name.module)
        if module is None:
            module = self._modules[name.module] = self._read(name.module)
        return module.get(name.name)

    def closure(self, roots: Iterable[ModelName]) -> Iterator[Model]:
        """These types and all that their fields refer to, each once."""
        seen: set[ModelName] = set()
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            model = self.find(name)
            if model is not None:
                yield model
                waiting.extend(field.type.model for field in model.fields.values() if field.type.model is not None)

    def _read(self, module: str) -> Mapping[str, Model]:
        path = self._directory / f"{module}.py"
        if not path.is_file():
            return {}
        tree = ast.parse(path.read_text(encoding="utf-8"))
        kinds = {name: _alias_kind(name, value) for name, value in _aliases(tree)}
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        known = {node.name for node in classes}
        models: dict[str, Model] = {}
        for node in classes:
            fields = [_field(item, module, known, kinds) for item in node.body if isinstance(item, ast.AnnAssign)]
            models[node.name] = Model(
                ModelName(module, node.name), {field.name: field for field in fields}, ast.get_docstring(node) or ""
            )
        return models


def installed_models() -> Models:
    """Raises ModuleNotFoundError if the library is not installed."""
    spec = importlib.util.find_spec(LIBRARY)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{LIBRARY} is not installed (lightkube-models)")
    return Models(Path(spec.submodule_search_locations[0]))


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The module's plain assignments: `Time = datetime`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, ast.unparse(node.value)


def _alias_kind(name: str, value: str) -> str:
    if value == "datetime":
        return "micro_time" if name == "MicroTime" else "time"
    return "object" if value == "Dict" else "any"


def _field(item: ast.AnnAssign, module: str, known: set[str], kinds: Mapping[str, str]) -> Field:
    assert isinstance(item.target, ast.Name)
    annotation = item.annotation.value if isinstance(item.annotation, ast.Constant) else ast.unparse(item.annotation)
    text = str(annotation)
    optional = text.startswith("Optional[")
    text = text.removeprefix("Optional[").removesuffix("]") if optional else text
    many = text.startswith("List[")
    text = text.removeprefix("List[").removesuffix("]") if many else text
    return Field(_json_name(item), _field_type(text, many, module, known, kinds), not optional)


def _field_type(text: str, many: bool, module: str, known: set[str], kinds: Mapping[str, str]) -> FieldType:
    plain = _PLAIN.get(text) or _SHARED.get(text) or kinds.get(text)
    if plain is not None:
        return FieldType(plain, many=many)
    where, _, name = text.rpartition(".")
    if where == "meta_v1" and name in {"Time", "MicroTime"}:
        return FieldType(_alias_kind(name, "datetime"), many=many)
    if where or name in known:
        return FieldType("model", ModelName(where or module, name), many)
    return FieldType("any", many=many)


def _json_name(item: ast.AnnAssign) -> str:
    """A field whose JSON name is no Python name says so: `field(metadata={"json": "from"}, default=None)`."""
    if isinstance(item.value, ast.Call):
        for keyword in item.value.keywords:
            if keyword.arg == "metadata":
                return str(ast.literal_eval(keyword.value)["json"])
    assert isinstance(item.target, ast.Name)
    return item.target.id


def _joined(lines: Iterable[str]) -> str:
    return " ".join(stripped for line in lines if (stripped := line.strip()))
