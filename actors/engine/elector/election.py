"""Settings of leader election: identity, Lease and durations."""

from __future__ import annotations

from kcm.protocols.arguments import check_number, check_text
from kcm.protocols.late_methods import dataclass

JITTER = 1.2  # of the retry period, while acquiring


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """Who of several copies of a program may write: the one whose identity is in this Lease, `namespace`/`name`.

    identity: other than every other copy's, as the pod's name is; it is the Lease's holderIdentity. component: the
    source of events about the Lease; the Lease's name where left empty. Durations are in seconds, and by default those
    of --leader-elect-lease-duration, -renew-deadline and -retry-period. ended: identities of processes that are proven
    to have ended; a lease that one of them holds is free.

    The Lease has no default: with another program's, and kube-controller-manager has one on every cluster, one would
    wait until that program ends. Raises ValueError on names that are empty and, as upstream, on timings that cannot
    work.
    """

    identity: str
    namespace: str
    name: str
    component: str = ""
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    ended: frozenset[str] = frozenset()

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
            object.__setattr__(self, "component", self.name)
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= JITTER * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")

    @property
    def request_timeout(self) -> float:
        """Seconds for one request, as upstream's client has it: in time for another try."""
        return max(1.0, self.renew_deadline / 2)
