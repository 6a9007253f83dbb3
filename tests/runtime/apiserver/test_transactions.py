"""A request is carried out completely or not at all if an error occurs; a failed background job affects no other."""

from __future__ import annotations

import random

import pytest

from kcm.runtime.apiserver.core.expiry import Expiry
from kcm.runtime.apiserver.stand_ins.garbage import GarbageCollector
from kcm.runtime.apiserver.stand_ins.namespace_cleanup import NamespaceCleanup
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.apiserver.storage.watches import CacheWatcher

EVERYTHING = ("namespaces", "configmaps", "pods", "replicasets", "customresourcedefinitions")


class FailingReaction:
    """Reaction that raises after a number of changes; the reactions before it have run."""

    def __init__(self) -> None:
        self.after: int | None = None  # changes

    def react(self, _change: StoreChange) -> None:
        if self.after is not None:
            self.after -= 1
            if self.after < 0:
                raise RuntimeError("a mistake")

    def undo(self, _change: StoreChange) -> None:
        return None


@pytest.fixture
def failing(api):
    reaction = FailingReaction()
    api.server._transactions.reactions.append(reaction)
    return reaction


def shown(api):
    """Return all objects, and the newest resourceVersion."""
    objects = {
        resource: {(item["metadata"].get("namespace"), item["metadata"]["name"]): item for item in listed.obj["items"]}
        for resource in EVERYTHING
        if (listed := api.list(resource, namespace=None)).status == 200
    }
    return api.server.revision, objects


def remembered(api):
    """Return the derived state of the reactions."""
    found = {}
    for reaction in api.server._transactions.reactions:
        match reaction:
            case GarbageCollector():
                found["owners"] = reaction._owners
                found["dependents"] = reaction._dependents
            case NamespaceCleanup():
                found["terminating"] = reaction._terminating
            case Expiry():
                found["due"] = reaction._due
    return {name: {**value} if isinstance(value, dict) else {*value} for name, value in found.items()}


def rebuilt(api):
    """Return the derived state of new collectors that start from the current state."""
    cluster = api.server._cluster
    collector, cleanup = GarbageCollector(cluster), NamespaceCleanup(cluster)
    return {
        "owners": collector._owners,
        "dependents": collector._dependents,
        "terminating": cleanup._terminating,
    }


def family(api):
    owner = api.create("replicasets", api.replicaset("rs")).obj
    for name in ("a", "b", "c"):
        api.create("pods", api.owned(api.pod(name), owner))


@pytest.mark.parametrize("after", range(6))
def test_deletion_that_fails_halfway_changes_nothing(api, failing, after):
    family(api)
    before = shown(api)
    failing.after = after
    with pytest.raises(RuntimeError, match="a mistake"):
        api.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    failing.after = None
    assert shown(api) == before
    assert rebuilt(api).items() <= remembered(api).items()
    api.delete("replicasets", "rs", {"propagationPolicy": "Background"})
    assert api.list("pods").names == []


def test_watchers_never_see_what_was_undone(api, failing):
    family(api)
    listener = api.watch("pods", resourceVersion=str(api.server.revision))
    failing.after = 2
    with pytest.raises(RuntimeError):
        api.delete("replicasets", "rs")
    failing.after = None
    api.create("pods", api.pod("later"))
    assert listener.seen == [("ADDED", "later")]


def test_custom_resource_of_an_undone_definition_is_not_served(api, failing):
    names = {"plural": "things", "kind": "Thing"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"metadata": {"name": "things.example.com"}, "spec": spec}
    failing.after = 1
    with pytest.raises(RuntimeError):
        api.create("customresourcedefinitions", body)
    failing.after = None
    assert api.list("things").status == 404
    api.create("customresourcedefinitions", body)
    api.create("things", {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
    listener = api.watch("things")
    failing.after = 1
    with pytest.raises(RuntimeError):
        api.delete("customresourcedefinitions", "things.example.com")
    failing.after = None
    assert api.list("things").names == ["t"]
    api.create("pods", api.pod())  # the next commits become durable
    assert listener.ended is None


@pytest.mark.parametrize("by", ["owner", "namespace", "owner in the foreground"])
def test_very_long_grace_period_ends_at_the_largest_time(api, by):
    api.create("namespaces", {"metadata": {"name": "n"}})
    owner = api.create("replicasets", api.replicaset("rs"), namespace="n").obj
    pod = api.owned(api.pod(nodeName="node", terminationGracePeriodSeconds=300_000_000_000), owner)
    assert api.create("pods", pod, namespace="n").status == 201
    match by:
        case "owner":
            api.delete("replicasets", "rs", {"propagationPolicy": "Background"}, namespace="n")
        case "owner in the foreground":
            api.delete("replicasets", "rs", {"propagationPolicy": "Foreground"}, namespace="n")
        case "namespace":
            assert api.delete("namespaces", "n").status == 200
    meta = api.get("pods", "web", namespace="n").meta
    assert meta["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    assert meta["deletionGracePeriodSeconds"] == 300_000_000_000
    shortened = api.delete("pods", "web", {"gracePeriodSeconds": 60}, namespace="n")
    assert shortened.meta["deletionTimestamp"] == "2001-09-09T01:47:40Z"
    api.delete("pods", "web", {"gracePeriodSeconds": 0}, namespace="n")
    assert not api.exists("pods", "web", namespace="n")


@pytest.mark.parametrize("seconds", [2**63, -(2**63) - 1, "9" * 5000])
def test_a_grace_period_of_more_than_64_bits_is_refused(api, seconds):
    api.create("pods", api.pod(nodeName="node"))
    if isinstance(seconds, int) and seconds > 0:
        assert api.delete("pods", "web", {"gracePeriodSeconds": seconds}).status == 400
    refused = api.send("DELETE", api.path("pods", "web"), gracePeriodSeconds=str(seconds))
    assert refused.status == 400


def test_failed_background_job_does_not_block_others(api, monkeypatch):
    broken, sound = (api.watch("pods", allowWatchBookmarks="true") for _ in range(2))
    assert isinstance(broken.watch, CacheWatcher)
    broken.watch.tick = lambda now: 1 / 0
    monkeypatch.setattr(Expiry, "is_due", lambda self, now: True)
    monkeypatch.setattr(Expiry, "tick", lambda self, now: 1 / 0)
    with pytest.raises(ExceptionGroup) as raised:
        api.advance(61)
    assert len(raised.value.exceptions) == 2
    assert sound.seen == [("BOOKMARK", ""), ("BOOKMARK", "")]  # after the initial state, and a minute later


SEEDS = 60
STEPS = 40
GRACE = (None, 0, 1, 30, 300_000_000_000, 2**63 - 1)
POLICIES = (None, "Background", "Foreground", "Orphan")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_deletions_leave_a_consistent_state(make_api, seed):
    api, draw = make_api(), random.Random(seed)
    listener = {resource: api.watch(resource, namespace=None) for resource in ("pods", "replicasets", "configmaps")}
    failing = FailingReaction()
    api.server._transactions.reactions.append(failing)
    for _ in range(STEPS):
        failing.after = draw.randrange(4) if draw.random() < 0.15 else None
        before = shown(api) if failing.after is not None else None
        try:
            step(api, draw)
        except RuntimeError:
            failing.after = None
            assert shown(api) == before
    failing.after = None
    current, expected = remembered(api), rebuilt(api)
    assert expected.items() <= current.items()
    for resource, watch in listener.items():
        assert seen(watch) == {item["metadata"]["uid"] for item in api.list(resource, namespace=None).obj["items"]}
    finish(api)
    assert not any(api.exists("namespaces", name) for name in ("n0", "n1"))
    assert rebuilt(api)["terminating"] == set()
    owners = {item["metadata"]["uid"] for resource in listener for item in everything(api, resource)}
    for resource in listener:
        for item in everything(api, resource):
            assert {reference["uid"] for reference in item["metadata"].get("ownerReferences") or ()} <= owners


def everything(api, resource):
    return api.list(resource, namespace=None).obj["items"]


def step(api, draw):
    namespace, name = draw.choice(("default", "n0", "n1")), draw.choice("abcde")
    resource = draw.choice(("pods", "replicasets", "configmaps"))
    match draw.randrange(7):
        case 0 | 1 | 2:
            bodies = {"pods": api.pod, "replicasets": api.replicaset, "configmaps": lambda n: {"metadata": {"name": n}}}
            body = bodies[resource](name)
            if resource == "pods":
                grace = draw.choice(GRACE)
                spec = {} if grace is None else {"terminationGracePeriodSeconds": grace}
                body = api.pod(name, **spec, **({"nodeName": "n"} if draw.random() < 0.5 else {}))
            candidates = [
                item
                for kind in ("replicasets", "configmaps", "pods")
                for item in api.list(kind, namespace=namespace).obj["items"]
            ]
            if candidates and draw.random() < 0.8:
                owners = draw.sample(candidates, min(len(candidates), draw.choice((1, 1, 2))))
                references = [
                    api.owned(body, owner, block=draw.random() < 0.5)["metadata"]["ownerReferences"][0]
                    for owner in owners
                ]
                body["metadata"]["ownerReferences"] = [
                    {**reference, "controller": index == 0} for index, reference in enumerate(references)
                ]
            if draw.random() < 0.2:
                body["metadata"]["finalizers"] = ["example.com/wait"]
            api.create(resource, body, namespace=namespace)
        case 3 | 4:
            options = {"propagationPolicy": draw.choice(POLICIES), "gracePeriodSeconds": draw.choice(GRACE)}
            given = {field: value for field, value in options.items() if value is not None}
            api.delete(resource, name, given, namespace=namespace)
        case 5:
            api.send("DELETE", api.path(resource, namespace=namespace), {"propagationPolicy": "Background"})
        case 6 if namespace != "default":
            if api.exists("namespaces", namespace):
                api.delete("namespaces", namespace)
            else:
                api.create("namespaces", {"metadata": {"name": namespace}})


def seen(listener):
    """Return the uids of the objects that exist according to a watch."""
    uids = set()
    for event in listener.events:
        change = uids.discard if event["type"] == "DELETED" else uids.add
        change(event["object"]["metadata"]["uid"])
    return uids


def finish(api):
    """Complete all deletions: remove finalizers, end grace periods, empty namespaces."""
    for namespace in ("n0", "n1"):
        api.delete("namespaces", namespace)
    for _ in range(10):
        for resource in ("pods", "replicasets", "configmaps"):
            for item in everything(api, resource):
                name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
                if "deletionTimestamp" not in item["metadata"]:
                    continue
                if "example.com/wait" in (item["metadata"].get("finalizers") or ()):
                    path = api.path(resource, name, namespace=namespace)
                    patch = {"metadata": {"finalizers": [f for f in item["metadata"]["finalizers"] if "/" not in f]}}
                    api.send("PATCH", path, patch, type_="application/merge-patch+json")
                api.delete(resource, name, {"gracePeriodSeconds": 0}, namespace=namespace)
