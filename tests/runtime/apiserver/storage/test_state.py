"""Stored form of objects."""

from __future__ import annotations

from kcm.runtime.apiserver.storage.state import State
from kcm.runtime.apiserver.storage.store import MemoryStore

IDENTITY = ["name", "namespace", "uid", "resourceVersion"]


def test_identifying_metadata_is_stored_first(api):
    config = {"metadata": {"labels": {"resourceVersion": "7"}, "annotations": {"a": "b"}, "name": "web"}}
    assert list(api.create("configmaps", config).meta)[:4] == IDENTITY
    assert list(api.put("configmaps", config).meta)[:4] == IDENTITY  # without a version
    assert list(api.patch("configmaps", "web", {"metadata": {"labels": {"c": "d"}}}).meta)[:4] == IDENTITY


def test_equal_labels_are_stored_once() -> None:
    state = State(MemoryStore(), lambda _changes: None)
    for name in "ab":
        state.put("pods", f"default/{name}", {"metadata": {"name": name, "labels": {"app": "web"}}})
    first, second = (state.get("pods", f"default/{name}") for name in "ab")
    assert first is not None
    assert second is not None
    assert first.labels is second.labels
    assert first.labels == {"app": "web"}
