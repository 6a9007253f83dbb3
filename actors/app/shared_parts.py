"""State and services that all actors of one system share, and checks of those that its caller passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from kcm.actors.engine.controller import DecisionMemory
from kcm.actors.engine.elector import Election
from kcm.actors.engine.informer import Outage
from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.actors.engine.vitals import CoordinatorVitals, ElectorVitals
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import GROUP_COORDINATOR, group_elector_name
from kcm.actors.reconciliation.derived import MakeTable, new_table
from kcm.actors.reconciliation.outside import Functions
from kcm.protocols.arguments import check_type
from kcm.runtime.calls.listeners import SourceRunner
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.client.api import Transport
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.limiters import StormBrake
from kcm.runtime.system.ledger import Ledger
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.view import AnyTable

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from kcm.actors.engine.elector.groups import ControllerGroups
    from kcm.actors.engine.spans import Tracing

CONTROLLER_MANAGER = "kube-controller-manager"  # the program whose controllers a system runs by default


class Assembly(Struct, frozen=True, kw_only=True):
    """State and services that all actors of one system share."""

    transport: Transport  # for requests to any cluster
    clock: Clock
    log: FilteringBoundLogger
    options: Options
    metrics: Metrics
    vitals: Vitals
    transports: Mapping[str, Transport] = field(default_factory=dict)  # by cluster, if there are several
    election: Election | None  # None: write without a lease, or under `elections`
    elections: dict[str, Election] = field(default_factory=dict)  # by cluster, if there are several
    make_table: MakeTable = new_table
    # By Table.id. Tables of discovered resources are added and removed together with their informers.
    tables: dict[str, Table] = field(default_factory=dict)
    # What each controller sees of the tables, by the controller's name and Resource.id.
    seen: dict[str, Mapping[str, AnyTable]] = field(default_factory=dict)
    decisions: dict[str, DecisionMemory] = field(default_factory=dict)  # by controller
    # Tables that the infrastructure reads, and no controller.
    own_tables: list[Table] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    brake: StormBrake | None = None  # None, as in a replay: the dispatcher has one of its own
    outages: dict[str, Outage] = field(default_factory=lambda: {"": Outage()})  # by cluster
    seed: int | None = None  # makes every random choice of the actors repeatable
    calls: Calls | None = None  # None, as in a replay: no external calls
    functions: Functions = field(default_factory=Functions)
    listeners: list[SourceRunner] = field(default_factory=list)
    cloud: CloudProvider | None = None
    authority: bytes = b""  # see ControllerContext
    warnings: ServerWarnings | None = None  # log of the server's warnings; None: each actor has its own
    program: str = CONTROLLER_MANAGER  # in labels of metrics
    tracing: Tracing | None = None  # spans; None without traces

    @property
    def clusters(self) -> tuple[str, ...]:
        """Return the names of the clusters; () for a program with one cluster, which has no name."""
        return tuple(self.transports)

    @property
    def groups(self) -> ControllerGroups | None:
        """Return the groups of controllers with Leases of their own; None without groups."""
        return None if self.election is None else self.election.groups

    def elsewhere(self, controller: str) -> str | None:
        """Return the replica that holds the group of a controller; "" if none does, None if this process may run it."""
        if self.groups is None:
            return None
        group = self.groups.group_of(controller)
        elector = self.vitals.of(group_elector_name(group), ElectorVitals)
        if elector is not None and elector.leading:
            return None
        coordinator = self.vitals.of(GROUP_COORDINATOR, CoordinatorVitals)
        return coordinator.holders.get(group, "") if coordinator is not None else ""

    @property
    def has_lease(self) -> bool:
        """Report whether controllers write only under a lease."""
        return self.election is not None or bool(self.elections)

    def transport_of(self, cluster: str) -> Transport:
        """Return the transport for requests that name no cluster in their path."""
        return self.transports[cluster] if cluster else self.transport


def check_transport(what: str, transport: object) -> None:
    if not (callable(getattr(transport, "send", None)) and callable(getattr(transport, "watch", None))):
        raise TypeError(f"{what} takes a Transport, as api_transport() returns it, not {transport!r:.80}")


def check_election(what: str, election: object) -> None:
    check_type(what, election, Election, "an Election(identity=…, namespace=…, name=…)")
