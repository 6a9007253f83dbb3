"""The ReplicaSets that a change enqueues."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.controllers.workloads.replicaset.kind import REPLICASET, watches
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Bench
from kcm.protocols.objects import Object, controller_of, encode_object, name_of
from kcm.protocols.resources import PODS, REPLICASETS, Resource
from tests.actors.controllers.workloads.replica_sets import CONTROLLER, DELETING, WEB, owned, web_replica_set
from tests.support.objects import running_pod


def keys_of(change: Change, *replica_sets: Object, resource: Resource = PODS) -> list[str]:
    tables = Bench({REPLICASETS: replica_sets, PODS: []}).tables
    return sorted(
        key for watch in watches(REPLICASET) if watch.resource == resource for key in watch.to(change, tables)
    )


def changed(new: Object, old: Object | None = None, *, type: str | None = None) -> Change:
    return Change(
        type=type or ("MODIFIED" if old is not None else "ADDED"),
        key=f"default/{name_of(new)}",
        raw=encode_object(new),
        controller=controller_of(new),
        previous=encode_object(old) if old is not None else b"",
        previous_controller=controller_of(old) if old is not None else None,
    )


TWO = [web_replica_set(), web_replica_set(name="wide"), web_replica_set(name="api", labels={"app": "api"})]
ORPHAN = running_pod("p", labels=WEB, metadata={"uid": "p"})
OTHER_ORPHAN = running_pod("p", labels={"app": "api"}, metadata={"uid": "p"})
OURS = owned("p", metadata={"uid": "p"})
THEIRS = owned("p", TWO[2], metadata={"uid": "p"})
# the change → the keys
CHANGES = {
    "a pod is added": (changed(OURS), ["default/web"]),
    "a pod is changed": (changed(OURS, OURS), ["default/web"]),
    "a pod is deleted": (changed(OURS, type="DELETED"), ["default/web"]),
    "a pod changes hands": (changed(THEIRS, OURS), ["default/api", "default/web"]),
    "a pod is released": (changed(OTHER_ORPHAN, OURS), ["default/api", "default/web"]),
    "a pod of another kind of owner": (changed(running_pod("p", labels=WEB, owner=CONTROLLER)), []),
    "a pod of a namesake": (
        changed(running_pod("p", owner={**OURS["metadata"]["ownerReferences"][0], "uid": "former"})),
        [],
    ),
    "an orphan is added": (changed(ORPHAN), ["default/web", "default/wide"]),
    "an orphan is relabelled": (changed(ORPHAN, OTHER_ORPHAN), ["default/web", "default/wide"]),
    "an orphan is changed": (changed(ORPHAN, ORPHAN), []),
    "an orphan is deleted and made anew": (
        changed(ORPHAN, {**ORPHAN, "metadata": {**ORPHAN["metadata"], "uid": "q"}}),
        ["default/web", "default/wide"],
    ),
    "an orphan is being deleted": (changed(running_pod("p", labels=WEB, metadata=DELETING)), []),
    "an orphan is deleted": (changed(ORPHAN, type="DELETED"), []),
    "an orphan without labels": (changed(running_pod("p")), []),
    "an orphan that nobody wants": (changed(running_pod("p", labels={"app": "x"})), []),
}


@pytest.mark.parametrize(("change", "keys"), CHANGES.values(), ids=CHANGES)
def test_changed_pod_enqueues_its_replica_sets(change: Change, keys: Sequence[str]) -> None:
    assert keys_of(change, *TWO) == keys


def test_malformed_replica_set_does_not_hide_an_orphan_from_others() -> None:
    broken = [
        web_replica_set(name="broken", labels={"app": 1}),
        {"metadata": {"name": "empty", "namespace": "default"}},
    ]
    assert keys_of(changed(ORPHAN), *broken, TWO[0]) == ["default/web"]


def test_changed_replica_set_enqueues_itself() -> None:
    assert keys_of(changed(web_replica_set()), resource=REPLICASETS) == ["default/web"]


def test_pods_enqueue_an_owner_that_is_not_in_the_table_yet() -> None:
    assert keys_of(changed(OURS)) == ["default/web"]
