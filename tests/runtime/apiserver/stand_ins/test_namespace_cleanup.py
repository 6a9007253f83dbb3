"""Namespaces: their end, and what may happen inside them until then."""

from __future__ import annotations


def test_an_empty_namespace_goes_at_once(api):
    api.create("namespaces", {"metadata": {"name": "team"}})
    deleted = api.delete("namespaces", "team")
    assert (deleted.status, deleted.obj["status"]) == (200, {"phase": "Terminating"})
    assert not api.exists("namespaces", "team")


def test_a_namespace_takes_with_it_all_that_it_holds(api):
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


def test_nothing_new_begins_in_a_namespace_that_ends(api):
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


def test_a_controller_can_finish_a_namespace(make_api):
    api = make_api(collect_garbage=False)
    api.create("namespaces", {"metadata": {"name": "team"}})
    api.delete("namespaces", "team")
    namespace = api.get("namespaces", "team").obj
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}

    namespace["spec"] = {}
    unchanged = api.put("namespaces", namespace)
    assert unchanged.obj["spec"] == {"finalizers": ["kubernetes"]}
    assert api.put("namespaces", namespace, "finalize").status == 200
    assert not api.exists("namespaces", "team")


def test_the_namespaces_that_the_cluster_rests_on_stay(api):
    refused = api.delete("namespaces", "default")
    assert (refused.status, refused.message) == (
        403,
        'namespaces "default" is forbidden: this namespace may not be deleted',
    )
    assert api.delete("namespaces", "kube-node-lease").status == 200


def test_a_namespaces_name_is_a_label(api):
    refused = api.create("namespaces", {"metadata": {"name": "a.b"}})
    assert refused.causes == {"metadata.name": 'Invalid value: "a.b": must not contain dots'}


def test_namespaces_can_be_selected_by_phase(api):
    assert len(api.list("namespaces", fieldSelector="status.phase=Active").names) == 4
