"""Declarations of CustomResourceDefinitions, for generated manifests. Permission is in watches.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from kcm.actors.reconciliation.watches import DefinedResource
from kcm.protocols.arguments import check_each, check_mapping, check_text, check_type, one_of
from kcm.protocols.resources import Resource

COLUMN_TYPES = ("string", "integer", "number", "boolean", "date")
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\[\])?(\.[A-Za-z_][A-Za-z0-9_]*(\[\])?)*")


class PrinterColumn(Struct, frozen=True):
    """PrinterColumn of `kubectl get`.

    path: JSONPath from the object: ".status.ready".
    type: of COLUMN_TYPES.
    wide: shown with `-o wide` only.
    """

    name: str
    path: str
    type: str = "string"
    description: str = ""
    wide: bool = False

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError and ValueError."""
        check_text("name of a PrinterColumn", self.name)
        check_text(f"path of the PrinterColumn {self.name}", self.path)
        if not self.path.startswith("."):
            raise ValueError(
                f"path of the PrinterColumn {self.name} begins with a dot, as .status.ready, not {self.path!r}"
            )
        one_of(f"type of the PrinterColumn {self.name}", self.type, COLUMN_TYPES)


class CelRule(Struct, frozen=True):
    """Condition of a custom resource in CEL, which the API server evaluates (x-kubernetes-validations).

    cel: expression over `self`, and `oldSelf` for a condition of updates.
    message: for the user whose request is rejected.
    at: path of the field that is `self`: "spec", "spec.ports[]" for each item; "" for the object.
    """

    cel: str
    message: str = ""
    at: str = ""

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError and ValueError."""
        check_text("cel of a CelRule", self.cel)
        check_text("message of a CelRule", self.message, may_be_empty=True)
        check_text("path of a CelRule", self.at, may_be_empty=True)
        if self.at and not _PATH.fullmatch(self.at):
            raise ValueError(f"path of a CelRule is like spec.ports[], not {self.at!r:.80}")

    @property
    def validation(self) -> dict[str, str]:
        """Return the entry of x-kubernetes-validations."""
        return {"rule": self.cel, **({"message": self.message} if self.message else {})}


def cel(expression: str, message: str = "") -> msgspec.Meta:
    """Return an annotation of a field of a dataclass or Struct: the condition that its value must meet.

    image: Annotated[str, cel("self == oldSelf", "cannot be changed")]
    """
    return msgspec.Meta(extra_json_schema={"x-kubernetes-validations": [CelRule(expression, message).validation]})


def list_map(*keys: str) -> msgspec.Meta:
    """Return an annotation of a list of objects: its items are unique by these fields, and merged by them on apply.

    conditions: Annotated[list[Condition], list_map("type")]
    """
    if not keys:
        raise ValueError("list_map names at least one field of the items")
    for key in keys:
        check_text("key of list_map", key)
    return msgspec.Meta(extra_json_schema={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]})


class ScaleSubresource(Struct, frozen=True):
    """Subresource `scale`: paths of the fields that `kubectl scale` and autoscalers read and write."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError and ValueError."""
        for what, path, start in (
            ("replicas", self.replicas, ".spec."),
            ("status_replicas", self.status_replicas, ".status."),
            ("selector", self.selector or ".status.selector", "."),
        ):
            check_text(f"{what} of a ScaleSubresource", path)
            if not path.startswith(start):
                raise ValueError(f"{what} of a ScaleSubresource begins with {start}, not {path!r:.80}")


class Definition(DefinedResource, frozen=True):
    """CustomResourceDefinition of an operator, generated from the models of a resource's versions.

    resource: the version in which objects are stored; its model determines the schema.
    versions: further versions; with conversion=(convert(…), …) in the spec if their schemas differ.
    unserved: names of versions that are not served any more.
    deprecated: warning for users of a version, by its name; "" for the server's own text.
    short_names, categories, singular: further names for kubectl.
    columns, rules, scale: of all versions.
    status: whether the status is a subresource; None if the model has a field `status`.
    """

    versions: tuple[Resource[Any], ...] = ()
    unserved: tuple[str, ...] = ()
    deprecated: Mapping[str, str] = MappingProxyType({})
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    columns: tuple[PrinterColumn, ...] = ()
    rules: tuple[CelRule, ...] = ()
    scale: ScaleSubresource | None = None
    status: bool | None = None

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError and ValueError."""
        check_type("a Definition", self.resource, Resource, "a Resource")
        name = self.resource.name
        check_each(f"versions of {name}", self.versions, _are(Resource, "a Resource"))
        for resource in self.all_versions:
            if resource.cluster:
                raise ValueError(f"a Definition of {name} names a cluster, and is applied to each: omit .on(…)")
            if "." not in resource.group:
                raise ValueError(f"the group of {name} has a domain, as example.com, not {resource.group!r}")
            if resource.model is None:
                raise TypeError(f"{resource.id} has no model: Resource(…, model=…) determines its schema")
            if (resource.name, resource.kind, resource.namespaced) != (
                name,
                self.resource.kind,
                self.resource.namespaced,
            ):
                raise ValueError(
                    f"versions of {name} differ in their version and model only, and {resource.id} does not"
                )
        names = [resource.version for resource in self.all_versions]
        if len({*names}) < len(names):
            raise ValueError(f"two versions of {name} have one name: {', '.join(names)}")
        for what, given in (("short_names", self.short_names), ("categories", self.categories)):
            check_each(f"{what} of {name}", given, check_text)
        check_text(f"singular of {name}", self.singular, may_be_empty=True)
        check_each(f"columns of {name}", self.columns, _are(PrinterColumn, "a PrinterColumn"))
        check_each(f"rules of {name}", self.rules, _are(CelRule, "a CelRule"))
        if self.scale is not None:
            check_type(f"scale of {name}", self.scale, ScaleSubresource, "a ScaleSubresource")
        check_each(f"unserved of {name}", self.unserved, check_text)
        check_mapping(f"deprecated of {name}", self.deprecated)
        for version in (*self.unserved, *self.deprecated):
            one_of(f"unserved and deprecated of {name}", version, names)

    @property
    def all_versions(self) -> tuple[Resource[Any], ...]:
        """Return the resource in all its versions, the stored one first."""
        return (self.resource, *self.versions)


class DefinitionFile(DefinedResource, frozen=True):
    """CustomResourceDefinition of an operator that exists as a YAML file, and is not generated from models.

    DefinitionFile(BACKUPS, Path(__file__).with_name("backup-crd.yml"))

    resource: in a version of the file.
    path: of the file, which contains one CustomResourceDefinition. It is read when manifests are generated.
    """

    path: Path

    def __post_init__(self) -> None:
        """Check the fields. Raises TypeError."""
        check_type("a DefinitionFile", self.resource, Resource, "a Resource")
        check_type(f"path of the DefinitionFile of {self.resource.name}", self.path, Path, "a Path")


def _are(expected: type, words: str) -> Callable[[str, Any], None]:
    return lambda what, given: check_type(what, given, expected, words)
