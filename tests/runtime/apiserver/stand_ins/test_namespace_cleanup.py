"""A deleted namespace is emptied, then removed."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_empty_namespace_is_removed_at_once(api: Api) -> None:
    api.create("namespaces", {"metadata": {"name": "team"}})
    deleted = api.delete("namespaces", "team")
    assert (deleted.status, deleted.obj["status"]) == (200, {"phase": "Terminating"})
    assert not api.exists("namespaces", "team")


def test_deleted_namespace_deletes_its_objects(api: Api) -> None:
    api.create("namespaces", {"metadata": {"name": "team"}})
    api.create("configmaps", {"metadata": {"name": "c"}}, namespace="team")
    api.create("deployments", api.replicaset(), namespace="team")
    api.create("pods", api.pod(nodeName="n"), namespace="team")

    api.delete("namespaces", "team")

    assert api.list("configmaps", namespace="team").names == []
    assert api.list("deployments", namespace="team").names == []
    assert api.get("namespaces", "team").obj["status"]["phase"] == "Terminating"
    assert api.get("pods", "web", namespace="team").meta["deletionTimestamp"]

    api.delete("pods", "web", {"gracePeriodSeconds": 0}, namespace="team")
    assert not api.exists("namespaces", "team")
