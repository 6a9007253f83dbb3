"""Plan of the controller manager: everything it may start, and the requests of operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from kcm.actors.reconciliation.actor_names import ELECTOR
from kcm.actors.reconciliation.discovered import Discovered
from kcm.protocols.messages.discovery import ServedResource
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.supervision import RestartPolicy


class ControllerPlan(Struct, frozen=True, kw_only=True):
    """Plan of one controller."""

    spec: ActorSpec
    resources: tuple[str, ...]  # Resource.ids of the static tables that it reads
    tables: tuple[str, ...]  # Table.ids of the same tables
    child: Callable[[str, str], ActorSpec]  # spec of a child by kind and name; raises KeyError for an unknown kind
    discovers: Discovered[Any] | None = None  # see ControllerSpec
    elector: str = ELECTOR  # elector of the lease under which it runs


class DiscoveredInformer(Struct, frozen=True):
    """Informer of a discovered resource."""

    spec: ActorSpec
    served: ServedResource
    metadata_only: bool  # its table contains metadata only


class DiscoveryPlan(Protocol):
    """Creates tables and informers of discovered resources. It outlives managers."""

    @property
    def actor(self) -> ActorSpec:
        """Return the spec of the actor that discovers resources."""

    @property
    def informers(self) -> Mapping[str, DiscoveredInformer]:
        """Return the present informers by Resource.id."""

    def add(self, served: ServedResource, *, metadata_only: bool) -> DiscoveredInformer:
        """Create a table of this resource, and return the plan of its informer."""

    def drop(self, resource_id: str) -> None:
        """Remove the table and the informer of this resource."""


class MigrationPlan(Struct, frozen=True, kw_only=True):
    """Plan of leader migration."""

    elector: ActorSpec  # of the migration Lease
    # Controller that must have started before the elector competes for the migration Lease; "": none.
    after: str


class ManagerPlan(Struct, frozen=True, kw_only=True):
    """Everything that the manager may start. Durations are in seconds."""

    infrastructure: tuple[ActorSpec, ...]  # started first, in this order
    informers: Mapping[str, ActorSpec]  # of static tables, by Table.id
    controllers: Mapping[str, ControllerPlan]  # by canonical name, in the order in which they start
    enabled: tuple[str, ...]  # controllers that start without a request of an operator
    discovery: DiscoveryPlan
    servers: tuple[ActorSpec, ...] = ()  # started after the informers, whether this process leads or not
    leader_elect: bool = True  # controllers wait for LeaseHeld
    electors: tuple[str, ...] = (ELECTOR,)  # among the infrastructure; several if the program works on several clusters
    migration: MigrationPlan | None = None
    group_electors: tuple[str, ...] = ()  # among the infrastructure; their leases are held within the main lease
    stand_by_on_loss: bool = False  # stop the controllers after LeaseLost and stand by again, instead of ending
    start_interval: float = 0.0  # see start_delay
    look_every: float = 5.0  # maximum interval of supervision ticks
    hung_after: float = 30.0  # an actor that is in one turn for longer is replaced
    drain_within: float = 10.0
    policy: RestartPolicy = field(default_factory=RestartPolicy)


def start_delay(interval: float, chance: float) -> float:
    """Return the delay in seconds before a controller starts: between one and two intervals.

    chance: uniform in [0, 1).

    Source: wait.Jitter(interval, 1.0), kubernetes v1.36 cmd/kube-controller-manager/app/controllermanager.go,
    ControllerStartJitter.
    """
    return interval + chance * 1.0 * interval


class Steering(Struct):
    """Requests of operators at run time. Only the manager writes them; they outlive its incarnations."""

    switched: dict[str, bool] = field(default_factory=dict)  # controllers that were enabled or disabled, by name
    paused: set[str] = field(default_factory=set)  # names of controllers

    def wanted(self, plan: ManagerPlan) -> tuple[str, ...]:
        """Return the names of the enabled controllers, in the plan's order."""
        return tuple(name for name in plan.controllers if self.switched.get(name, name in plan.enabled))
