"""Who stands for leader, of what, and how long each step may take."""

from __future__ import annotations

from dataclasses import dataclass

JITTER = 1.2  # of the retry period, while acquiring


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The --leader-elect-* flags; durations in seconds. identity: who we are in holderIdentity.

    ended: identities of processes that are proven to have ended; a lease that one of them holds is free.
    Raises ValueError as upstream's constructor does on timings that cannot work.
    """

    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    namespace: str = "kube-system"
    name: str = "kube-controller-manager"
    component: str = "kube-controller-manager"
    ended: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.identity:
            raise ValueError("Lock identity is empty")
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
