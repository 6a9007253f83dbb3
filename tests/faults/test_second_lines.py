"""Mutants without effect, because a second safeguard prevents it; each safeguard is tested by itself."""

from __future__ import annotations

from functools import partial

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.shared.generated_names import generated_names
from kcm.actors.engine.dispatcher import Dispatcher, DispatchLimits
from kcm.actors.reconciliation.actor_names import DISPATCHER
from kcm.protocols.messages.commands import Create, Submit
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.ledger import Ledger
from tests.faults.mutants.catalogue import MUTANTS
from tests.faults.mutants.matrix import Hunt
from tests.faults.mutants.mutant import Mutant, Mutation
from tests.faults.mutants.processes import (
    STALE,
    names_come_again,
    replaced_actors_work_on,
    replaced_actors_write_on,
)
from tests.support.scripted import Probe, ScriptedTransport

SEEDS = 10
NUMBERED = Mutant(
    name="pods are numbered", source="StatefulSets name them so", mutation=names_come_again, setting=STALE
)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "mutant", [*(mutant for mutant in MUTANTS if mutant.held_by), NUMBERED], ids=lambda mutant: mutant.name
)
def test_bug_with_a_second_safeguard_causes_no_violation(mutant: Mutant) -> None:
    assert Hunt(mutant).search(range(SEEDS)).found == {}


@pytest.mark.parametrize(
    ("mutation", "sent"),
    [(replaced_actors_work_on, 0), (replaced_actors_write_on, 1)],
    ids=["it handles its mail", "and does not look whether it was replaced"],
)
def test_replaced_dispatcher_sends_no_queued_commands(mutation: Mutation, sent: int, log: FilteringBoundLogger) -> None:
    world, transport = World(log=log), ScriptedTransport()
    system = world.system()
    limits = DispatchLimits(needs_lease=False)
    spec = ActorSpec(name=DISPATCHER, build=partial(Dispatcher, transport=transport, ledger=Ledger(), limits=limits))
    system.spawn(ActorSpec(name="me", build=partial(Probe, kept=[])))
    system.spawn(spec)
    world.run_for(1.0)
    world.hang(system, DISPATCHER, seconds=50.0)
    system.tell(DISPATCHER, Submit("me", 1, "client", 1, (Create("v1/pods", "default", b"{}"),)))
    system.spawn(spec)
    with mutation():
        world.run_for(60.0)
    assert len(transport.sent) == sent


def test_pod_names_differ_between_versions_of_the_owner() -> None:
    # A deletion decided for an older version of the owner must not hit the pods of a later version by their name.
    names: list[str] = []
    for uid in ("first", "second"):
        for version in range(100):
            meta = {"name": "set", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
            names += generated_names({"metadata": meta}, 4, taken=lambda _key: False)
    assert len(set(names)) == len(names) == 800
