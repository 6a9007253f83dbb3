"""Permitted creations and deletions, and the object that a deletion deletes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.engine.dispatcher.requests import request_for
from kcm.actors.simulation.invariants.common.deletions import DeletesTheObservedObject, OnlyOwnDependents
from kcm.actors.simulation.invariants.observer import Handled, Submitted
from kcm.actors.simulation.invariants.ownership import OwnershipIndex, Owns, declared_controller, replicas_of
from kcm.protocols.messages.commands import Command, Create, Delete, Submit
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS
from kcm.runtime.client.api import Response
from kcm.runtime.tables.table import Table
from tests.support.objects import owned_by, pod

OWNERSHIP = OwnershipIndex(
    [
        declared_controller("daemonset-controller", owns=[Owns(REPLICASETS, PODS, wanted=replicas_of)]),
        declared_controller("evictor", deletes=[PODS]),
        declared_controller("sweeper", deletes_any=True),
    ]
)


def owned_pod(name: str, owner_kind: str = "") -> Object:
    return pod(name, version=8, owner=owned_by("uid-of-web", kind=owner_kind, name="web") if owner_kind else None)


def found(sender: str, *commands: Command) -> list[str]:
    table = Table(PODS, derive=pod_facts)
    writer = table.claim()
    for obj in (owned_pod("own", "ReplicaSet"), owned_pod("other", "Job")):
        writer.put(table.make_entry(obj, encode_object(obj)))
    system: Any = SimpleNamespace(tables={PODS.id: table})
    texts: list[str] = []
    submit = Submit(f"controller:{sender}", 1, "client", 1, commands)
    OnlyOwnDependents(OWNERSHIP).observe(Submitted("manager", system, submit), texts.append)
    return texts


@pytest.mark.parametrize(
    ("sender", "command", "wrong"),
    [
        ("daemonset-controller", Delete(PODS.id, "default/own"), ""),
        ("daemonset-controller", Delete(PODS.id, "default/other"), "which Job web owns"),
        ("daemonset-controller", Delete(NODES.id, "n1"), "may not delete"),
        ("daemonset-controller", Create(PODS.id, "default", encode_object(owned_pod("x", "ReplicaSet"))), ""),
        (
            "daemonset-controller",
            Create(PODS.id, "default", encode_object(owned_pod("x"))),
            "that no ['ReplicaSet'] owns",
        ),
        ("daemonset-controller", Create(DEPLOYMENTS.id, "default", encode_object(owned_pod("x"))), ""),
        ("evictor", Delete(PODS.id, "default/other"), ""),
        ("evictor", Delete(NODES.id, "n1"), "may not delete"),
        ("sweeper", Delete(NODES.id, "n1"), ""),
        ("unheard-of", Delete(NODES.id, "n1"), ""),
    ],
    ids=str,
)
def test_controller_creates_and_deletes_only_its_own_objects(sender: str, command: Command, wrong: str) -> None:
    texts = found(sender, command)
    assert len(texts) == bool(wrong)
    assert all(wrong in text for text in texts)


def hits(*deletions: tuple[Delete, str]) -> list[str]:
    """Submit deletions, and respond to each with the uid of the deleted object. The table contains the uid "shown"."""
    table = Table(PODS, derive=pod_facts)
    shown = pod("p", version=8, metadata={"uid": "shown"})
    table.claim().put(table.make_entry(shown, encode_object(shown)))
    system: Any = SimpleNamespace(tables={PODS.id: table})
    invariant, texts = DeletesTheObservedObject(), list[str]()
    for ticket, (command, _) in enumerate(deletions, start=1):
        submit = Submit("controller:c", 1, "client", ticket, (command,))
        invariant.observe(Submitted("manager", system, submit), texts.append)
    for command, uid in deletions:
        response = Response(status=200, body=encode_object(pod("p", version=9, metadata={"uid": uid})))
        invariant.observe(Handled("manager", "client", request_for(command), response, ()), texts.append)
    return texts


def test_deletion_by_name_that_hits_another_object_is_a_violation() -> None:
    assert hits((Delete(PODS.id, "default/p"), "shown")) == []
    (text,) = hits((Delete(PODS.id, "default/p"), "successor"))
    assert text == "/api/v1/namespaces/default/pods/p deletes another object than the controller observed"


def test_deletions_of_one_name_are_distinguished_by_uid() -> None:
    """False alarm, seed 7700040 of swarm: two queues deleted a secret, one of them by the uid of its predecessor."""
    successor, gone = (Delete(PODS.id, "default/p", uid=uid) for uid in ("successor", "gone"))
    assert hits((successor, "successor"), (gone, "gone")) == []
    assert len(hits((successor, "gone"))) == 1
