"""What the controller manager is given: all that it may start, and what operators asked for since."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

from kcm.actors.reconciliation.discovered import Discovered
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.discovery import ServedResource
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.supervision import RestartPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerPlan:
    """One controller: how to build its actor, which resources it reads (by Resource.id) in which tables (by Table.id),
    and how to build a child of its own by kind and name; raises KeyError on a kind that it does not have. discovers: as
    in its ControllerSpec.
    """

    spec: ActorSpec
    resources: tuple[str, ...]
    tables: tuple[str, ...]
    child: Callable[[str, str], ActorSpec]
    discovers: Discovered[Any] | None = None


@dataclass(frozen=True, slots=True)
class DiscoveredInformer:
    """spec: of the informer. metadata_only: of its table."""

    spec: ActorSpec
    served: ServedResource
    metadata_only: bool


class DiscoveryPlan(Protocol):
    """How discovered resources get their tables and informers. It outlives managers.

    actor: finds resources. informers: of those that have one now, by Resource.id.
    """

    @property
    def actor(self) -> ActorSpec: ...

    @property
    def informers(self) -> Mapping[str, DiscoveredInformer]: ...

    def add(self, served: ServedResource, *, metadata_only: bool) -> DiscoveredInformer:
        """Make a table for it, and say how to build its informer."""

    def drop(self, resource_id: str) -> None:
        """Forget both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerPlan:
    """All that the manager may start.

    infrastructure: in this order, before all else. informers: of static tables, by Table.id. controllers: by
    canonical name, in the order in which they start; enabled: those that start by themselves. discovery: of all other
    resources. start_interval: seconds, see start_delay. leader_elect: controllers wait for LeaseHeld.
    look_every: seconds between two looks at all children, at most. hung_after, drain_within: seconds.
    """

    infrastructure: tuple[ActorSpec, ...]
    informers: Mapping[str, ActorSpec]
    controllers: Mapping[str, ControllerPlan]
    enabled: tuple[str, ...]
    discovery: DiscoveryPlan
    leader_elect: bool = True
    start_interval: float = 0.0
    look_every: float = 5.0
    hung_after: float = 30.0
    drain_within: float = 10.0
    policy: RestartPolicy = field(default_factory=RestartPolicy)


def start_delay(interval: float, chance: float) -> float:
    """Seconds of sleep before a controller starts: the interval, and up to once as much again.

    chance: uniform in [0, 1). Source: wait.Jitter(interval, 1.0), kubernetes v1.36
    cmd/kube-controller-manager/app/controllermanager.go, ControllerStartJitter.
    """
    return interval + chance * 1.0 * interval


@dataclass(slots=True)
class Steering:
    """What operators asked for while it runs. The manager alone writes it, and the next one finds it.

    switched: controllers that were switched on or off, by name. paused: their names.
    """

    switched: dict[str, bool] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)

    def wanted(self, plan: ManagerPlan) -> tuple[str, ...]:
        """The controllers that are to run, in the plan's order."""
        return tuple(name for name in plan.controllers if self.switched.get(name, name in plan.enabled))
