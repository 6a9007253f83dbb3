"""DELETE: grace, finalizers, preconditions, and what becomes of what was owned."""

from __future__ import annotations

import pytest

NOW = {"gracePeriodSeconds": 0}


def test_a_plain_object_goes_at_once_and_the_answer_says_which(api):
    created = api.create("configmaps", {"metadata": {"name": "c"}})
    deleted = api.delete("configmaps", "c")
    assert deleted.status == 200
    assert (deleted.obj["kind"], deleted.obj["status"]) == ("Status", "Success")
    assert deleted.obj["details"] == {"name": "c", "kind": "configmaps", "uid": created.meta["uid"]}
    assert not api.exists("configmaps", "c")


@pytest.mark.parametrize(
    "spec,status,options,stays",
    [
        ({}, {}, {}, False),  # on no node
        ({"nodeName": "n"}, {}, {}, True),
        ({"nodeName": "n"}, {}, NOW, False),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 0}, {}, {}, False),
        ({"nodeName": "n"}, {"phase": "Succeeded"}, {}, False),
        ({"nodeName": "n"}, {"phase": "Failed"}, {"gracePeriodSeconds": 60}, False),
        ({"nodeName": "n"}, {"phase": "Running"}, {"gracePeriodSeconds": -1}, True),  # counts as 1
    ],
)
def test_only_a_pod_that_a_node_runs_is_given_time(api, spec, status, options, stays):
    api.create("pods", api.pod(**spec))
    if status:
        api.patch("pods", "web", {"status": status}, subresource="status")
    deleted = api.delete("pods", "web", options)
    assert (deleted.status, deleted.obj["kind"]) == (200, "Pod")
    assert api.exists("pods", "web") is stays


def test_a_graceful_deletion_says_until_when_and_is_over_when_the_node_says_so(api):
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
    assert [type_ for type_, _ in listener.told] == ["MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


def test_an_object_stays_until_its_last_finalizer_goes(api):
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


def test_a_new_object_must_wait_for_one_that_is_being_deleted(api):
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
def test_preconditions_hold_or_it_is_a_conflict(api, preconditions, text):
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
def test_options_that_cannot_be_are_refused(api, options, status):
    api.create("pods", api.pod())
    assert api.delete("pods", "web", options).status == status
    assert api.exists("pods", "web")


def test_options_may_stand_in_the_query(api):
    api.create("pods", api.pod(nodeName="n"))
    assert api.send("DELETE", api.path("pods", "web"), gracePeriodSeconds="7").meta["deletionGracePeriodSeconds"] == 7


def test_dry_run_deletes_nothing(api):
    api.create("pods", api.pod())
    assert api.delete("pods", "web", {"dryRun": ["All"]}).status == 200
    assert api.exists("pods", "web")


def test_a_collection_is_deleted_as_far_as_it_is_selected(api):
    for name in ("a", "b", "c"):
        body = api.pod(name)
        body["metadata"]["labels"] = {"name": name}
        api.create("pods", body)
    deleted = api.send("DELETE", api.path("pods"), labelSelector="name!=b")
    assert (deleted.status, deleted.obj["kind"], deleted.names) == (200, "PodList", ["a", "c"])
    assert api.list("pods").names == ["b"]


# --- owners and owned


@pytest.fixture
def family(api):
    """A Deployment d, its ReplicaSet rs, its pods p and q; and a pod of nobody."""
    deployment = api.create("deployments", api.replicaset("d")).obj
    replicaset = api.create("replicasets", api.owned(api.replicaset("rs"), deployment)).obj
    for name in ("p", "q"):
        api.create("pods", api.owned(api.pod(name), replicaset))
    api.create("pods", api.pod("nobodys"))
    return api


def test_in_the_background_what_is_owned_goes_with_its_owner(family):
    family.delete("deployments", "d", {"propagationPolicy": "Background"})
    assert not family.exists("replicasets", "rs")
    assert family.list("pods").names == ["nobodys"]


def test_orphans_stay_and_forget_their_owner(family):
    family.delete("replicasets", "rs", {"propagationPolicy": "Orphan"})
    assert not family.exists("replicasets", "rs")
    pod = family.get("pods", "p").obj
    assert "ownerReferences" not in pod["metadata"]
    assert pod["metadata"]["generation"] == 1


def test_by_default_a_replication_controller_leaves_its_pods(api):
    body = {"metadata": {"name": "rc"}, "spec": {"template": api.template()}}
    controller = api.create("replicationcontrollers", body).obj
    api.create("pods", api.owned(api.pod("p"), controller))
    api.delete("replicationcontrollers", "rc")
    assert not api.exists("replicationcontrollers", "rc")
    assert api.exists("pods", "p")


def test_in_the_foreground_the_owner_goes_last(family):
    family.patch("pods", "p", {"metadata": {"finalizers": ["example.com/wait"]}})

    marked = family.delete("replicasets", "rs", {"propagationPolicy": "Foreground"})

    assert marked.meta["finalizers"] == ["foregroundDeletion"]
    assert marked.meta["generation"] == 2
    assert not family.exists("pods", "q")
    assert family.get("pods", "p").meta["deletionTimestamp"]
    family.patch("pods", "p", {"metadata": {"finalizers": None}})
    assert not family.exists("replicasets", "rs")


def test_in_the_foreground_a_whole_family_goes_from_below(family):
    family.delete("deployments", "d", {"propagationPolicy": "Foreground"})
    assert not family.exists("deployments", "d")
    assert not family.exists("replicasets", "rs")
    assert family.list("pods").names == ["nobodys"]


def test_an_owner_does_not_wait_for_what_does_not_block(api):
    owner = api.create("configmaps", {"metadata": {"name": "owner"}}).obj
    body = api.owned({"metadata": {"name": "owned", "finalizers": ["example.com/wait"]}}, owner, block=False)
    api.create("configmaps", body)
    api.delete("configmaps", "owner", {"propagationPolicy": "Foreground"})
    assert not api.exists("configmaps", "owner")
    assert api.get("configmaps", "owned").meta["deletionTimestamp"]


def test_what_has_another_owner_stays_with_that_one(api):
    one, other = (api.create("configmaps", {"metadata": {"name": name}}).obj for name in ("one", "other"))
    body = api.owned({"metadata": {"name": "shared"}}, one)
    body["metadata"]["ownerReferences"] += api.owned(body, other)["metadata"]["ownerReferences"]
    body["metadata"]["ownerReferences"][1]["controller"] = False
    api.create("configmaps", body)

    api.delete("configmaps", "one")
    assert [one["name"] for one in api.get("configmaps", "shared").meta["ownerReferences"]] == ["other"]
    api.delete("configmaps", "other")
    assert not api.exists("configmaps", "shared")


def test_what_is_made_for_an_owner_that_is_gone_goes_too(api):
    owner = api.create("configmaps", {"metadata": {"name": "owner"}}).obj
    api.delete("configmaps", "owner")
    api.create("configmaps", {"metadata": {"name": "owner"}})  # another one, of the same name
    assert api.create("pods", api.owned(api.pod(), owner)).status == 201
    assert not api.exists("pods", "web")


def test_an_owner_of_an_unknown_kind_counts_as_there(api):
    owner = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}}
    api.create("pods", api.owned(api.pod(), owner))
    assert api.exists("pods", "web")


def test_a_pod_on_a_node_is_given_its_grace_when_its_owner_goes(api):
    replicaset = api.create("replicasets", api.replicaset("rs")).obj
    api.create("pods", api.owned(api.pod(nodeName="n"), replicaset))
    api.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    assert api.get("pods", "web").meta["deletionGracePeriodSeconds"] == 30


def test_a_cluster_with_a_garbage_collector_of_its_own_is_left_to_it(make_api):
    api = make_api(collect_garbage=False)
    replicaset = api.create("replicasets", api.replicaset("rs")).obj
    api.create("pods", api.owned(api.pod(), replicaset))
    api.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    assert api.exists("pods", "web")
    deployment = api.create("deployments", api.replicaset("d"))
    assert deployment.status == 201
    waiting = api.delete("deployments", "d", {"propagationPolicy": "Foreground"})
    assert waiting.meta["finalizers"] == ["foregroundDeletion"]
    assert api.exists("deployments", "d")
    api.delete("namespaces", "kube-node-lease")
    assert api.get("namespaces", "kube-node-lease").obj["status"]["phase"] == "Terminating"
