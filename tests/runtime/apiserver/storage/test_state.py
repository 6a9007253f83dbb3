"""How objects are stored."""

from __future__ import annotations

from kcm.runtime.apiserver.storage.state import State
from kcm.runtime.apiserver.storage.store import MemoryStore

IDENTITY = ["name", "namespace", "uid", "resourceVersion"]


def test_what_identifies_an_object_comes_first_in_its_metadata(api):
    config = {"metadata": {"labels": {"resourceVersion": "7"}, "annotations": {"a": "b"}, "name": "web"}}
    assert list(api.create("configmaps", config).meta)[:4] == IDENTITY
    assert list(api.put("configmaps", config).meta)[:4] == IDENTITY  # without a version
    assert list(api.patch("configmaps", "web", {"metadata": {"labels": {"c": "d"}}}).meta)[:4] == IDENTITY


def test_labels_that_many_objects_have_are_kept_once() -> None:
    state = State(MemoryStore(), lambda _changes: None)
    for name in "ab":
        state.put("pods", f"default/{name}", {"metadata": {"name": name, "labels": {"app": "web"}}})
    first, second = (state.get("pods", f"default/{name}") for name in "ab")
    assert first is not None
    assert second is not None
    assert first.labels is second.labels
    assert first.labels == {"app": "web"}
