"""Patches that change nothing are remembered, reported once, and held back."""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.tables.ineffective import MOST_FIELDS, MOST_REMEMBERED, IneffectivePatches

TYPO = {"spec": {"replicsa": 2}}


def obj(version: int = 1, name: str = "web") -> Object:
    return {"metadata": {"name": name, "namespace": "d", "resourceVersion": str(version)}}


def test_patch_that_changed_nothing_is_held_back_until_object_or_patch_changes() -> None:
    known = IneffectivePatches()
    assert not known.holds_back(PODS, obj(), TYPO)
    known.patched(PODS, obj(), obj(), TYPO)
    assert known.holds_back(PODS, obj(), {"spec": {"replicsa": 2}})
    assert not known.holds_back(PODS, obj(2), TYPO)
    assert not known.holds_back(PODS, obj(), {"spec": {"replicas": 2}})
    assert not known.holds_back(PODS, obj(name="db"), TYPO)
    assert not known.holds_back(REPLICASETS, obj(), TYPO)
    assert not known.holds_back(PODS, obj(), TYPO, subresource="status")
    known.forget()
    assert not known.holds_back(PODS, obj(), TYPO)


def test_patch_that_changed_the_object_is_not_held_back() -> None:
    known = IneffectivePatches()
    known.patched(PODS, obj(1), obj(2), TYPO)
    assert not known.holds_back(PODS, obj(2), TYPO)
    assert known.unreported == []


def test_fields_of_an_ineffective_patch_are_reported_once() -> None:
    known = IneffectivePatches()
    known.patched(PODS, obj(), obj(), {"spec": {"a": 1, "b": {"c": None}}, "metadata": {"labels": {"x.io/y": "z"}}})
    (first,) = known.unreported
    assert (first.key, first.fields) == ("d/web", ("spec.a", "spec.b.c", "metadata.labels[x.io/y]"))
    known.unreported.clear()
    known.patched(PODS, obj(5), obj(5), {"spec": {"a": 7, "b": {"c": 8}}, "metadata": {"labels": {"x.io/y": ""}}})
    assert known.unreported == [], "the same fields with other values"
    known.patched(PODS, obj(5), obj(5), {"phase": "x"}, subresource="status")
    assert [patch.fields for patch in known.unreported] == [("status.phase",)]


def test_number_of_remembered_patches_is_limited() -> None:
    known = IneffectivePatches()
    for number in range(MOST_REMEMBERED + 1):
        known.patched(PODS, obj(name=f"n{number}"), obj(name=f"n{number}"), TYPO)
    assert not known.holds_back(PODS, obj(name="n0"), TYPO)
    assert known.holds_back(PODS, obj(name="n1"), TYPO)
    known.unreported.clear()
    known.patched(PODS, obj(), obj(), {"spec": {f"f{number}": 1 for number in range(3 * MOST_FIELDS)}})
    assert len(known.unreported[0].fields) == MOST_FIELDS
