"""Selections: the objects of a resource that a watch returns, by namespace, labels and fields.

If one selection contains another, the table of the first serves both. A table that serves several selections tests
each object once for each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from kcm.protocols.objects import Object, labels_of, name_of, namespace_of
from kcm.protocols.resources import Resource
from kcm.protocols.selectors import (
    EVERYTHING,
    FieldRequirement,
    FieldSelector,
    LabelSelector,
    Operator,
    Requirement,
    parse_field_selector,
    parse_label_selector,
)

ANY = FieldSelector()
_OF_METADATA = {"metadata.name": name_of, "metadata.namespace": namespace_of}


class Selection(Struct, frozen=True, kw_only=True):
    """Objects of a resource that a watch returns.

    namespaces: sorted; None for all namespaces, and for a cluster-scoped resource.
    metadata_only: the watch returns the metadata of each object.

    Only the server selects by fields other than metadata.name and metadata.namespace, because their string form depends
    on the resource. They are tested only for objects that the server has selected by them.
    """

    namespaces: tuple[str, ...] | None = None
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = ANY
    metadata_only: bool = False

    def __str__(self) -> str:
        """Describe the selection for messages; "" if it is unrestricted."""
        parts = []
        if self.namespaces is not None:
            parts.append(f"in {', '.join(self.namespaces)}")
        selectors = [str(selector) for selector in (self.labels, self.fields) if not selector.empty]
        if selectors:
            parts.append(f"with {', '.join(selectors)}")
        if self.metadata_only:
            parts.append("metadata only")
        return ", ".join(parts)

    @property
    def query(self) -> dict[str, str]:
        """Return the query parameters of a list or watch, without the namespace."""
        selectors = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return {name: str(selector) for name, selector in selectors if not selector.empty}

    def id_of(self, resource: Resource) -> str:
        """Return the id of the table of these objects, without spaces; Resource.id if the selection is unrestricted."""
        restrictions = [] if self.namespaces is None else [("namespace", ",".join(self.namespaces))]
        selectors = (("labels", str(self.labels)), ("fields", str(self.fields)))
        restrictions += [(name, text) for name, text in selectors if text]
        parts = [f"{name}={quote(text, safe='/=!,')}" for name, text in restrictions]
        if self.metadata_only:
            parts.append("metadata")
        return f"{resource.id}?{'&'.join(parts)}" if parts else resource.id

    def each_namespace(self) -> tuple[Selection, ...]:
        """Split the selection by namespace, one per request; return it alone if it has all namespaces."""
        if self.namespaces is None:
            return (self,)
        return tuple(replace(self, namespaces=(namespace,)) for namespace in self.namespaces)

    def covers(self, other: Selection) -> bool:
        """Report whether this selection has all objects of the other, and the other can be evaluated on its objects."""
        if self.namespaces is not None and not (other.namespaces and set(other.namespaces) <= set(self.namespaces)):
            return False
        if self.labels.empty and self.fields.empty and other.fields.empty:
            return True
        ours, theirs = self.labels.requirements, other.labels.requirements
        missing = set(other.fields.requirements) - set(self.fields.requirements)
        return (
            all(any(_implies(their, our) for their in theirs) for our in ours)
            and set(self.fields.requirements) <= set(other.fields.requirements)
            and all(requirement.field in _OF_METADATA for requirement in missing)
        )

    def contains(self, other: Selection) -> bool:
        """Report whether a table of this selection serves the other: it covers it, and has as much of each object."""
        return (other.metadata_only or not self.metadata_only) and self.covers(other)

    def beyond(self, known: Selection) -> Selection:
        """Return the conditions to test on an object that is in `known`, a selection that covers this one."""
        left = tuple(each for each in self.fields.requirements if each not in known.fields.requirements)
        return replace(self, fields=FieldSelector(left))

    def selects(self, obj: Object) -> bool:
        """Report whether the object is selected. A field whose string form only the server knows counts as met."""
        return (
            (self.namespaces is None or namespace_of(obj) in self.namespaces)
            and self.labels.matches(labels_of(obj))
            and all(_is_met(requirement, obj) for requirement in self.fields.requirements)
        )


WHOLE = Selection()


def read_selection(
    resource: Resource, *, labels: str, fields: str, namespaces: Iterable[str] | None, metadata_only: bool
) -> Selection:
    """Parse the arguments of a watch. Raises TypeError or ValueError that names the invalid argument."""
    for name, text in (("labels", labels), ("fields", fields)):
        if not isinstance(text, str):
            raise TypeError(f"{name} of a watch of {resource} are a selector, as text, not {text!r:.80}")
    return Selection(
        namespaces=None if namespaces is None else _checked(resource, namespaces),
        labels=parse_label_selector(labels),
        fields=parse_field_selector(fields),
        metadata_only=metadata_only,
    )


def _checked(resource: Resource, namespaces: Iterable[str]) -> tuple[str, ...]:
    if isinstance(namespaces, str):
        raise TypeError(f"namespaces of a watch of {resource}: expected a tuple, got {namespaces!r}")
    found = tuple(sorted(set(namespaces), key=str))
    if not resource.namespaced:
        raise ValueError(f"{resource} are cluster-scoped; the watch selects namespaces {', '.join(map(str, found))}")
    for namespace in found:
        if not namespace or "/" in namespace:
            raise ValueError(f"namespaces of a watch of {resource}: {namespace!r} is not a valid namespace")
    if not found:
        raise ValueError(f"namespaces of a watch of {resource} are empty; None selects all")
    return found


_ONE_OF = (Operator.EQUALS, Operator.IN)
_NONE_OF = (Operator.NOT_EQUALS, Operator.NOT_IN)


def _implies(requirement: Requirement, other: Requirement) -> bool:
    """Report whether the requirement implies the other. False if that is not evident."""
    if requirement == other:
        return True
    if requirement.key != other.key:
        return False
    if requirement.operator in _ONE_OF:
        values = set(requirement.values)
        return (
            other.operator is Operator.EXISTS
            or (other.operator in _ONE_OF and values <= set(other.values))
            or (other.operator in _NONE_OF and values.isdisjoint(other.values))
        )
    if requirement.operator in _NONE_OF:
        return other.operator in _NONE_OF and set(other.values) <= set(requirement.values)
    return requirement.operator is Operator.DOES_NOT_EXIST and other.operator in _NONE_OF


def _is_met(requirement: FieldRequirement, obj: Object) -> bool:
    of_metadata = _OF_METADATA.get(requirement.field)
    text = of_metadata(obj) if of_metadata is not None else _text_at(obj, requirement.field)
    return text is None or (text == requirement.value) is not requirement.negated


def _text_at(obj: Object, path: str) -> str | None:
    """Return the value as text; None if the server may format it differently."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None
