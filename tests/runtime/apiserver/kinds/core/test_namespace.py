"""Finalization, labels and selection of Namespaces."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.conftest import Api


def test_namespace_can_be_finalized_by_a_controller(make_api: type[Any]) -> None:
    api = make_api(empty_namespaces=False)
    api.create("namespaces", {"metadata": {"name": "team"}})
    api.delete("namespaces", "team")
    namespace = api.get("namespaces", "team").obj
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}

    namespace["spec"] = {}
    unchanged = api.put("namespaces", namespace)
    assert unchanged.obj["spec"] == {"finalizers": ["kubernetes"]}
    assert api.put("namespaces", namespace, "finalize").status == 200
    assert not api.exists("namespaces", "team")


def test_namespace_has_its_name_as_a_label(api: Api) -> None:
    refused = api.create("namespaces", {"metadata": {"name": "a.b"}})
    assert refused.causes == {"metadata.name": 'Invalid value: "a.b": must not contain dots'}


def test_namespaces_can_be_selected_by_phase(api: Api) -> None:
    assert len(api.list("namespaces", fieldSelector="status.phase=Active").names) == 4


def test_generated_name_of_a_namespace_is_a_label(api: Api) -> None:
    generated = {"metadata": {"generateName": "team-"}}
    api.create("namespaces", {"metadata": {"name": "team-00000"}})  # the first random name
    made = api.create("namespaces", generated)
    assert made.meta["name"] == "team-00001"
    assert made.meta["labels"] == {"kubernetes.io/metadata.name": "team-00001"}
