"""What a controller may create and delete follows from what it is declared to own, whatever its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors.simulation.invariants.deletions import KeepsToItsOwn
from actors.simulation.invariants.observing import Submitted
from actors.simulation.invariants.ownership import Ownership, Owns, keeper, replicas_of
from protocols.messages.commands import Command, Create, Delete, Submit
from protocols.objects import Object, encode_object
from protocols.pods import pod_facts
from protocols.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS
from runtime.tables.table import Table
from tests.support.objects import owned_by, pod

OWNERSHIP = Ownership(
    [
        keeper("daemonset-controller", owns=[Owns(REPLICASETS, PODS, wanted=replicas_of)]),
        keeper("evictor", deletes=[PODS]),
        keeper("sweeper", deletes_any=True),
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
    KeepsToItsOwn(OWNERSHIP).observe(Submitted("manager", system, submit), texts.append)
    return texts


@pytest.mark.parametrize(
    ("sender", "command", "wrong"),
    [
        ("daemonset-controller", Delete(PODS.id, "default/own"), ""),
        ("daemonset-controller", Delete(PODS.id, "default/other"), "which Job web owns"),
        ("daemonset-controller", Delete(NODES.id, "n1"), "not its to delete"),
        ("daemonset-controller", Create(PODS.id, "default", encode_object(owned_pod("x", "ReplicaSet"))), ""),
        (
            "daemonset-controller",
            Create(PODS.id, "default", encode_object(owned_pod("x"))),
            "none of ['ReplicaSet'] owns",
        ),
        ("daemonset-controller", Create(DEPLOYMENTS.id, "default", encode_object(owned_pod("x"))), ""),
        ("evictor", Delete(PODS.id, "default/other"), ""),
        ("evictor", Delete(NODES.id, "n1"), "not its to delete"),
        ("sweeper", Delete(NODES.id, "n1"), ""),
        ("unheard-of", Delete(NODES.id, "n1"), ""),
    ],
    ids=str,
)
def test_a_controller_keeps_to_its_own(sender: str, command: Command, wrong: str) -> None:
    texts = found(sender, command)
    assert len(texts) == bool(wrong)
    assert all(wrong in text for text in texts)
