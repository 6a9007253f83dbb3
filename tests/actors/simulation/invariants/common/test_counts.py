"""Permitted deletions of pods, by the information of the controller's process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.common.counts import NoPodTooMany
from kcm.actors.simulation.invariants.observer import OutcomeReceived, ProcessStarted, Submitted
from kcm.actors.simulation.invariants.ownership import OwnershipIndex, Owns, declared_controller, replicas_of
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Submit
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import PODS, REPLICASETS
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.tables.table import Table
from tests.support.objects import owned_by, pod

OWNERSHIP = OwnershipIndex(
    [declared_controller("replicaset-controller", owns=[Owns(REPLICASETS, PODS, wanted=replicas_of)])]
)
SENDER = "controller:replicaset-controller"
WEB = {"metadata": {"name": "web", "namespace": "default", "uid": "uid-web", "resourceVersion": "7"}}
ADOPTED = pod("a", version=9, owner=owned_by("uid-web", kind="ReplicaSet", name="web"))
ENDED = {**ADOPTED, "metadata": {**ADOPTED["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
RELEASED = pod("a", version=9)
PATCH = Patch(PODS.id, "default/a", encode_object(RELEASED))


def table(resource: Any, obj: Object) -> Table:
    made = Table(resource, derive=pod_facts if resource is PODS else None)
    made.claim().put(made.make_entry(obj, encode_object(obj)))
    return made


@pytest.mark.parametrize(
    ("returned", "replicas", "wrong"),
    [
        (ADOPTED, 0, ""),
        (ADOPTED, 1, "but ReplicaSet web requests [1] pods"),
        (ENDED, 1, ""),  # its deletion changes nothing
        (RELEASED, 0, "no owner with a number of pods"),
    ],
    ids=["one too many", "one that is wanted", "one that has ended meanwhile", "one that was released"],
)
def test_a_pod_that_was_patched_is_deleted(returned: Object, replicas: int, wrong: str) -> None:
    owner = {**WEB, "spec": {"replicas": replicas}}
    tables = {PODS.id: table(PODS, pod("a", version=8)), REPLICASETS.id: table(REPLICASETS, owner)}
    system: Any = SimpleNamespace(tables=tables)
    cluster: Any = SimpleNamespace(clock=VirtualClock(), injector=SimpleNamespace(faults=()))
    invariant, texts = NoPodTooMany(cluster, OWNERSHIP), []

    def submit(command: Command) -> None:
        invariant.observe(Submitted("manager", system, Submit(SENDER, 1, "client", 1, (command,))), texts.append)

    invariant.observe(ProcessStarted("manager", system), texts.append)
    submit(PATCH)
    invariant.observe(OutcomeReceived("manager", system, SENDER, PATCH, Done(encode_object(returned))), texts.append)
    submit(Delete(PODS.id, "default/a"))
    assert len(texts) == bool(wrong)
    assert all(wrong in text for text in texts)


ANOTHER = owned_by("uid-of-another-web", kind="ReplicaSet", name="web")
LOOK = Get(REPLICASETS.id, "default/web")
ADOPTION = Patch(PODS.id, "default/a", encode_object({"metadata": {"ownerReferences": [ANOTHER]}}))
CREATION = Create(PODS.id, "default", encode_object(pod("b", owner=ANOTHER)))


def another_web(version: int, replicas: int) -> Done:
    meta = {**WEB["metadata"], "uid": ANOTHER["uid"], "resourceVersion": str(version)}
    return Done(encode_object({"metadata": meta, "spec": {"replicas": replicas}}))


@pytest.mark.parametrize(("at_first", "wrong"), [(1, ""), (0, "which requests [0] pods")])
def test_a_set_wants_as_many_pods_as_when_it_was_looked_at_although_the_table_shows_another(
    at_first: int, wrong: str
) -> None:
    """False alarm: before the second live read the set was scaled down and the orphan deleted.

    As upstream, the reconciliation is based on the result of the first read.
    """
    tables = {PODS.id: table(PODS, RELEASED), REPLICASETS.id: table(REPLICASETS, WEB)}
    system: Any = SimpleNamespace(tables=tables)
    clock = VirtualClock()
    cluster: Any = SimpleNamespace(clock=clock, injector=SimpleNamespace(faults=()))
    invariant, texts = NoPodTooMany(cluster, OWNERSHIP), []
    invariant.observe(ProcessStarted("manager", system), texts.append)
    for command, outcome in [
        (LOOK, another_web(10, at_first)),
        (LOOK, another_web(11, 0)),
        (ADOPTION, NotFound()),
        (CREATION, None),
    ]:
        clock.advance_to(clock.monotonic() + (1 if command is LOOK else 0))
        invariant.observe(Submitted("manager", system, Submit(SENDER, 1, "client", 1, (command,))), texts.append)
        if outcome is not None:
            invariant.observe(OutcomeReceived("manager", system, SENDER, command, outcome), texts.append)
    assert len(texts) == bool(wrong)
    assert all(wrong in text for text in texts)
