"""What a seeded run simulates: the cluster, who works on it, what people wish, and what it has to come to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.controllers.workloads import deployment, replicaset, replicationcontroller
from actors.options import Options
from actors.reconciliation.actor_names import DISPATCHER, ELECTOR, MANAGER, controller_name, informer_name
from actors.reconciliation.specs import ControllerSpec
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.scenarios import Wish, draw_wishes, end_state, unsettled
from actors.simulation.invariants.observing import Invariant
from runtime.faults.vocabulary import Fault
from runtime.simulation.plan import draw_plan

WISHES = 30.0  # seconds within which people wish something
SCENARIOS = 24  # wishes are drawn from the seed modulo this, so that runs without faults can be kept
MANAGERS = "manager*"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hollow nodes, dealt to the zones in turn."""

    nodes: int = 3
    zones: int = 2


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """See the module. A scenario is a seed modulo SCENARIOS, so that runs without faults can be kept to compare with.

    name: as --setting has it; for one of another package "module:ATTRIBUTE". prepare: done to the cluster before
    anybody works on it: its CustomResourceDefinitions are made here. options: None is the defaults. cloud: managers
    find a fake one. elections: how many managers stand for election; 0 is one manager without a lease. invariants:
    those beside the usual ones. end_state, unsettled: see scenarios.py. faults: seconds within which something goes
    wrong. settled: seconds after that within which all has to be as it is wished. draw: makes the plan of a seed, see
    runtime/simulation/plan.py.
    """

    name: str = "workloads"
    controllers: tuple[ControllerSpec, ...] = (replicationcontroller.SPEC, replicaset.SPEC, deployment.SPEC)
    prepare: Callable[[SimulatedCluster], object] = field(default=lambda _cluster: None)
    options: Callable[[int], Options | None] = field(default=lambda _scenario: None)
    fleet: Callable[[int], Fleet] = field(default=lambda _scenario: Fleet())
    cloud: bool = False
    wishes: Callable[[int], tuple[Wish, ...]] = field(default=lambda scenario: draw_wishes(scenario, seconds=WISHES))
    elections: Callable[[int], int] = field(default=lambda scenario: (0, 0, 1, 2)[scenario % 4])
    invariants: Callable[[SimulatedCluster, int], Sequence[Invariant]] = field(default=lambda _cluster, _scenario: ())
    end_state: Callable[[SimulatedCluster], dict[str, Any]] = end_state
    unsettled: Callable[[SimulatedCluster], list[str]] = unsettled
    faults: float = 40.0
    settled: float = 250.0
    draw: Callable[..., tuple[Fault, ...]] = draw_plan

    def plan(self, seed: int) -> tuple[Fault, ...]:
        return self.draw(seed, seconds=self.faults, process=MANAGERS, actors=self.actors())

    def actors(self) -> tuple[str, ...]:
        """Names to choose victims from."""
        resources = dict.fromkeys(resource.id for spec in self.controllers for resource in spec.resources)
        return (
            MANAGER,
            DISPATCHER,
            ELECTOR,
            informer_name("*"),
            controller_name("*"),
            *(informer_name(resource_id) for resource_id in resources),
            *(controller_name(spec.name) for spec in self.controllers),
        )


USUAL = Setting()
