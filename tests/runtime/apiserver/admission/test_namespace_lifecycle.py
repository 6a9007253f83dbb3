"""NamespaceLifecycle: objects only in namespaces that exist and are not being deleted."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_object_is_not_created_in_a_missing_namespace(api: Api) -> None:
    refused = api.create("pods", api.pod(), namespace="nowhere")
    assert (refused.status, refused.message) == (404, 'namespaces "nowhere" not found')


def test_object_is_not_created_in_a_terminating_namespace(api: Api) -> None:
    api.create("namespaces", {"metadata": {"name": "team"}})
    api.create("pods", api.pod(nodeName="n"), namespace="team")
    api.delete("namespaces", "team")

    refused = api.create("pods", api.pod("late"), namespace="team")

    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'pods "late" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert refused.obj["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace team is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_system_namespaces_cannot_be_deleted(api: Api) -> None:
    refused = api.delete("namespaces", "default")
    assert (refused.status, refused.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )
    assert api.delete("namespaces", "kube-node-lease").status == 200
