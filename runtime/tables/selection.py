"""Which objects of a resource a watch is about: its namespaces, its label and field selectors, and how much of each.

A Selection is a value. Two questions decide about tables: whether one selection contains another, so that its table
serves both; and whether an object is selected, which a table that serves several asks of each object once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from kcm.protocols.late_methods import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """namespaces: sorted; None for all, and for a cluster-scoped resource. metadata_only: of each object its metadata.

    By fields other than metadata.name and metadata.namespace only the server selects, as it alone knows how a resource
    spells them; so these are never asked of an object that the server has not selected by them.
    """

    namespaces: tuple[str, ...] | None = None
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = ANY
    metadata_only: bool = False

    def __str__(self) -> str:
        """As people read it: "" for all of every object."""
        said = []
        if self.namespaces is not None:
            said.append(f"in {', '.join(self.namespaces)}")
        selectors = [str(one) for one in (self.labels, self.fields) if not one.empty]
        if selectors:
            said.append(f"with {', '.join(selectors)}")
        if self.metadata_only:
            said.append("metadata only")
        return ", ".join(said)

    @property
    def query(self) -> dict[str, str]:
        """What a list or watch is asked with, beside the namespace."""
        selectors = (("labelSelector", self.labels), ("fieldSelector", self.fields))
        return {name: str(selector) for name, selector in selectors if not selector.empty}

    def id_of(self, resource: Resource) -> str:
        """Of the table of these objects: Resource.id where nothing is restricted; no spaces."""
        said = [] if self.namespaces is None else [("namespace", ",".join(self.namespaces))]
        said += [(name, text) for name, text in (("labels", str(self.labels)), ("fields", str(self.fields))) if text]
        parts = [f"{name}={quote(text, safe='/=!,')}" for name, text in said]
        if self.metadata_only:
            parts.append("metadata")
        return f"{resource.id}?{'&'.join(parts)}" if parts else resource.id

    def each_namespace(self) -> tuple[Selection, ...]:
        """One for each namespace, as a server is asked; itself where it is of all."""
        if self.namespaces is None:
            return (self,)
        return tuple(replace(self, namespaces=(one,)) for one in self.namespaces)

    def covers(self, other: Selection) -> bool:
        """Whether all objects of the other are among those of this one, and an object of it shows which are."""
        if self.namespaces is not None and not (other.namespaces and set(other.namespaces) <= set(self.namespaces)):
            return False
        if self.labels.empty and self.fields.empty and other.fields.empty:
            return True
        ours, theirs = self.labels.requirements, other.labels.requirements
        missing = set(other.fields.requirements) - set(self.fields.requirements)
        return (
            all(any(_implies(one, each) for one in theirs) for each in ours)
            and set(self.fields.requirements) <= set(other.fields.requirements)
            and all(requirement.field in _OF_METADATA for requirement in missing)
        )

    def contains(self, other: Selection) -> bool:
        """Whether a table of this one serves the other: it covers it, and has as much of each object."""
        return (other.metadata_only or not self.metadata_only) and self.covers(other)

    def beyond(self, known: Selection) -> Selection:
        """What is left to ask of an object that is known to be in a selection that covers this one."""
        left = tuple(one for one in self.fields.requirements if one not in known.fields.requirements)
        return replace(self, fields=FieldSelector(left))

    def selects(self, obj: Object) -> bool:
        """A field whose text only the server knows counts as met."""
        return (
            (self.namespaces is None or namespace_of(obj) in self.namespaces)
            and self.labels.matches(labels_of(obj))
            and all(_is_met(one, obj) for one in self.fields.requirements)
        )


WHOLE = Selection()


def read_selection(
    resource: Resource, *, labels: str, fields: str, namespaces: Iterable[str] | None, metadata_only: bool
) -> Selection:
    """From what an author wrote. Raises TypeError or ValueError that names what is wrong with it."""
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
        raise ValueError(f"{resource} are in no namespace, and {', '.join(map(str, found))} is asked for")
    for one in found:
        if not one or "/" in one:
            raise ValueError(f"namespaces of a watch of {resource}: {one!r} is no namespace")
    if not found:
        raise ValueError(f"a watch of {resource} is in no namespace at all; None is all of them")
    return found


_ONE_OF = (Operator.EQUALS, Operator.IN)
_NONE_OF = (Operator.NOT_EQUALS, Operator.NOT_IN)


def _implies(one: Requirement, other: Requirement) -> bool:
    """Whether whatever meets the one meets the other. False where that is not plain."""
    if one == other:
        return True
    if one.key != other.key:
        return False
    if one.operator in _ONE_OF:
        values = set(one.values)
        return (
            other.operator is Operator.EXISTS
            or (other.operator in _ONE_OF and values <= set(other.values))
            or (other.operator in _NONE_OF and values.isdisjoint(other.values))
        )
    if one.operator in _NONE_OF:
        return other.operator in _NONE_OF and set(other.values) <= set(one.values)
    return one.operator is Operator.DOES_NOT_EXIST and other.operator in _NONE_OF


def _is_met(requirement: FieldRequirement, obj: Object) -> bool:
    of_metadata = _OF_METADATA.get(requirement.field)
    text = of_metadata(obj) if of_metadata is not None else _text_at(obj, requirement.field)
    return text is None or (text == requirement.value) is not requirement.negated


def _text_at(obj: Object, path: str) -> str | None:
    """None where the server may spell it otherwise."""
    value: Any = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None
