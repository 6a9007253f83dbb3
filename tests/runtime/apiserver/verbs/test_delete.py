"""DELETE of an object and of a collection."""

from __future__ import annotations

import pytest

from kcm.protocols.objects import Object
from kcm.runtime.client.api import Request, Response
from tests.runtime.apiserver.conftest import Api

NOW = {"gracePeriodSeconds": 0}


def test_plain_object_is_deleted_at_once_and_returned_in_the_status(api: Api) -> None:
    created = api.create("configmaps", {"metadata": {"name": "c"}})
    deleted = api.delete("configmaps", "c")
    assert deleted.status == 200
    assert (deleted.obj["kind"], deleted.obj["status"]) == ("Status", "Success")
    assert deleted.obj["details"] == {"name": "c", "kind": "configmaps", "uid": created.meta["uid"]}
    assert not api.exists("configmaps", "c")


@pytest.mark.parametrize(
    "spec,status,options,stays",
    [
        ({}, {}, {}, False),  # not bound to a node
        ({"nodeName": "n"}, {}, {}, True),
        ({"nodeName": "n"}, {}, NOW, False),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, {}, {}, False),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, {}, False),
        ({"nodeName": "n"}, {"phase": "Failed"}, {"gracePeriodSeconds": 60}, False),
        ({"nodeName": "n"}, {"phase": "Running"}, {"gracePeriodSeconds": -1}, True),  # counts as 1
    ],
)
def test_only_pods_on_a_node_have_a_grace_period(
    api: Api, spec: Object, status: Object, options: Object, stays: bool
) -> None:
    api.create("pods", api.pod(**spec))
    if status:
        api.patch("pods", "web", {"status": status}, subresource="status")
    deleted = api.delete("pods", "web", options)
    assert (deleted.status, deleted.obj["kind"]) == (200, "Pod")
    assert api.exists("pods", "web") is stays


def test_a_graceful_deletion_sets_a_deadline_and_ends_when_the_node_confirms(api: Api) -> None:
    api.create("pods", api.pod(nodeName="n"))
    listener = api.watch("pods", resourceVersion=str(api.server.revision))

    meta = api.delete("pods", "web").meta
    assert meta["deletionTimestamp"] == "2001-09-09T01:47:10Z"
    assert meta["deletionGracePeriodSeconds"] == 30
    assert meta["generation"] == 2

    again = api.delete("pods", "web")
    assert again.meta == meta
    assert api.delete("pods", "web", {"gracePeriodSeconds": 60}).meta == meta

    api.clock.time += 2
    shorter = api.delete("pods", "web", {"gracePeriodSeconds": 10})
    assert shorter.meta["deletionTimestamp"] == "2001-09-09T01:46:50Z"
    assert shorter.meta["deletionGracePeriodSeconds"] == 10

    api.clock.time += 60
    overdue = api.delete("pods", "web", {"gracePeriodSeconds": 5})
    assert overdue.meta["deletionGracePeriodSeconds"] == 1

    api.delete("pods", "web", NOW)
    assert not api.exists("pods", "web")
    assert [type_ for type_, _ in listener.seen] == ["MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


def test_object_is_kept_until_its_last_finalizer_is_removed(api: Api) -> None:
    body = {"metadata": {"name": "c", "finalizers": ["example.com/a", "example.com/b"]}}
    api.create("configmaps", body)

    marked = api.delete("configmaps", "c")
    assert marked.meta["deletionTimestamp"] == "2001-09-09T01:46:40Z"
    assert marked.meta["deletionGracePeriodSeconds"] == 0

    assert api.delete("configmaps", "c").meta["resourceVersion"] == marked.meta["resourceVersion"]
    refused = api.patch("configmaps", "c", {"metadata": {"finalizers": ["example.com/c"]}})
    assert refused.causes == {
        "metadata.finalizers": (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            'found new finalizers []string{"example.com/c"}'
        )
    }
    undeleted = api.patch("configmaps", "c", {"metadata": {"deletionTimestamp": None, "finalizers": ["example.com/b"]}})
    assert undeleted.meta["deletionTimestamp"] == marked.meta["deletionTimestamp"]

    api.create("configmaps", {"metadata": {"name": "c"}})
    last = api.patch("configmaps", "c", {"metadata": {"finalizers": None}})
    assert last.status == 200
    assert not api.exists("configmaps", "c")


def test_terminating_object_blocks_creation_with_its_name(api: Api) -> None:
    api.create("configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/a"]}})
    api.delete("configmaps", "c")
    refused = api.create("configmaps", {"metadata": {"name": "c"}})
    assert refused.message == 'object is being deleted: configmaps "c" already exists'


@pytest.mark.parametrize(
    "preconditions,text",
    [
        (
            {"uid": "other"},
            (
                "the UID in the precondition (other) does not match the UID in record ({uid}). "
                "The object might have been deleted and then recreated"
            ),
        ),
        (
            {"resourceVersion": "1"},
            (
                "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). "
                "The object might have been modified"
            ),
        ),
    ],
)
def test_failed_precondition_is_a_conflict(api: Api, preconditions: Object, text: str) -> None:
    meta = api.create("pods", api.pod()).meta
    refused = api.delete("pods", "web", {"preconditions": preconditions})
    assert (refused.status, refused.reason) == (409, "Conflict")
    because = text.format(uid=meta["uid"], version=meta["resourceVersion"])
    assert refused.message == f'Operation cannot be fulfilled on Pod "web": {because}'
    fulfilled = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    assert api.delete("pods", "web", {"preconditions": fulfilled}).status == 200


@pytest.mark.parametrize(
    "options,status",
    [
        (b"{", 400),
        (b"[]", 400),
        ({"kind": "Pod"}, 400),
        ({"gracePeriodSeconds": "soon"}, 400),
        ({"gracePeriodSeconds": []}, 400),
        ({"preconditions": "none"}, 400),
        ({"preconditions": {"uid": 7}}, 400),
        ({"propagationPolicy": "Sideways"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
    ],
)
def test_invalid_delete_options_are_rejected(api: Api, options: bytes | Object, status: int) -> None:
    api.create("pods", api.pod())
    assert api.delete("pods", "web", options).status == status
    assert api.exists("pods", "web")


def test_delete_options_may_be_in_the_query(api: Api) -> None:
    api.create("pods", api.pod(nodeName="n"))
    assert api.send("DELETE", api.path("pods", "web"), gracePeriodSeconds="7").meta["deletionGracePeriodSeconds"] == 7


def test_dry_run_deletes_nothing(api: Api) -> None:
    api.create("pods", api.pod())
    assert api.delete("pods", "web", {"dryRun": ["All"]}).status == 200
    assert api.exists("pods", "web")


def test_only_selected_objects_of_a_collection_are_deleted(api: Api) -> None:
    for name in ("a", "b", "c"):
        body = api.pod(name)
        body["metadata"]["labels"] = {"name": name}
        api.create("pods", body)
    deleted = api.send("DELETE", api.path("pods"), labelSelector="name!=b")
    assert (deleted.status, deleted.obj["kind"], deleted.names) == (200, "PodList", ["a", "c"])
    assert api.list("pods").names == ["b"]


def test_collection_is_deleted_if_no_webhook_matches_its_deletion(api: Api) -> None:
    webhook: Object = {
        "name": "hook.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://192.0.2.1:9443/check"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    configured = api.send("POST", path, {"metadata": {"name": "hooks"}, "webhooks": [webhook]})
    assert configured.status == 201
    api.create("configmaps", {"metadata": {"name": "a"}})
    deleted = api.server.begin(Request(method="DELETE", path=api.path("configmaps")))
    assert isinstance(deleted, Response)
    assert deleted.status == 200
    assert api.list("configmaps").names == []
