"""Settings of leader election: identity, Lease and durations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import force_setattr

from kcm.actors.engine.elector.migration import Migration
from kcm.protocols.arguments import check_number, check_text

if TYPE_CHECKING:
    from kcm.actors.engine.elector.groups import ControllerGroups

JITTER = 1.2  # upstream's factor of the retry period, while acquiring
STANDBY_PERIOD = 1.0  # maximum seconds between two attempts of a standby
STANDBY_SPREAD = 0.5  # maximum random part by which this period is shortened


class Candidacy(Struct, frozen=True, kw_only=True):
    """Versions of a candidate of coordinated leader election, as "1.36.2"."""

    binary_version: str
    emulation_version: str


class Election(Struct, frozen=True, kw_only=True):
    """Leader election among replicas of a program, by the Lease `namespace`/`name`.

    The Lease has no default: a replica that used the Lease of another program, such as kube-controller-manager, would
    wait until that program ends.

    Durations are in seconds; their defaults are those of --leader-elect-lease-duration, --leader-elect-renew-deadline
    and --leader-elect-retry-period.

    Raises ValueError if a name is empty and, as upstream, if the durations do not fit together.
    """

    identity: str  # holderIdentity of the Lease; differs between replicas, like a pod's name
    namespace: str
    name: str
    component: str = ""  # source of events about the Lease; "": the Lease's name
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    ended: frozenset[str] = frozenset()  # identities of processes that are known to have ended; their lease is free
    migration: Migration | None = None  # controllers under a second Lease; None without leader migration
    candidacy: Candidacy | None = None  # let the API server elect (coordinated leader election); None: compete
    groups: ControllerGroups | None = None  # Leases for groups of controllers, which replicas share; None: one Lease
    stand_by: bool = False  # after a loss, stop the controllers and stand by again, instead of ending the system

    def __post_init__(self) -> None:
        for what in ("identity", "namespace", "name", "component"):
            check_text(f"{what} of an Election", getattr(self, what), may_be_empty=True)
        for what in ("lease_duration", "renew_deadline", "retry_period"):
            check_number(f"{what} of an Election", getattr(self, what))
        if not self.identity:
            raise ValueError("Lock identity is empty")
        if not self.namespace or not self.name:
            raise ValueError(f"a Lease has a namespace and a name, got {self.namespace!r} and {self.name!r}")
        if not self.component:
            force_setattr(self, "component", self.name)
        if self.groups is not None and (self.migration is not None or self.candidacy is not None):
            raise ValueError("groups of controllers exclude leader migration and coordinated leader election")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")

    @property
    def request_timeout(self) -> float:
        """Return the timeout of one request in seconds, as in upstream's client, which leaves time for a retry."""
        return max(1.0, self.renew_deadline / 2)
