"""Lease as last observed, and attempts to acquire it: generators that yield commands and receive the outcomes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.actors.engine.elector.election import STANDBY_PERIOD, STANDBY_SPREAD, Election
from kcm.protocols.messages.commands import Command, Create, Get, List, Update
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Conflict, Done, NotFound, Outcome
from kcm.protocols.objects import Object, decode_object, encode_object, make_key, metadata
from kcm.protocols.resources import LEASES
from kcm.protocols.times import format_micro_time
from kcm.runtime.metrics.registry import Counter
from kcm.runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CLIENT = "leader-election"
NOT_ELECTED = "not found, and only the API server creates it (feature gate CoordinatedLeaderElection)"
Try = Generator[Command, Outcome, bool]  # an attempt; returns whether we hold the lease now


def seconds_of(spec: Object) -> float:
    duration = spec.get("leaseDurationSeconds")
    return float(duration) if isinstance(duration, int) else 0.0


def renewed(spec: Object, election: Election, *, now: float) -> Object:
    """Return the lease's spec after our renewal or acquisition. now: Unix seconds."""
    mine = spec.get("holderIdentity") == election.identity
    stamp = format_micro_time(now)
    return {
        **spec,
        "holderIdentity": election.identity,
        "leaseDurationSeconds": int(election.lease_duration),
        "acquireTime": spec.get("acquireTime", stamp) if mine else stamp,
        "renewTime": stamp,
        "leaseTransitions": (spec.get("leaseTransitions") or 0) + (0 if mine else 1),
    }


class SharedHolders(Struct, frozen=True):
    """Other processes that hold the Lease under the same identity as this one.

    label_selector: selects the Leases by which these processes show that they are alive.
    may_hold: called with these Leases; reports whether another process may hold the shared Lease.
    """

    label_selector: str
    may_hold: Callable[[Iterable[Object]], bool]


def no_marks() -> Mapping[str, Mapping[str, str]]:
    return {}


class ObservedLease:
    """The Lease as last observed. `key` is "namespace/name".

    An attempt raises ValueError, TypeError, KeyError or AttributeError for a malformed response.
    """

    def __init__(
        self,
        election: Election,
        *,
        clock: Clock,
        log: FilteringBoundLogger,
        slow: Counter,
        new_holder: Callable[[str], None],
        cluster: str = "",
        marks: Callable[[], Mapping[str, Mapping[str, str]]] = no_marks,
        shared: SharedHolders | None = None,
    ) -> None:
        """Create an unknown Lease.

        cluster: where it is, in a program that works on several.
        slow: counts renewals that had to read the Lease first.
        new_holder: called with the identity of a new holder, "" if the Lease was released.
        marks: called before each write; returns labels and annotations to set, under these names.
        shared: other processes that hold the Lease together with this one; None if it has one holder.
        """
        self._marks, self._shared = marks, shared
        self._election, self._clock, self._log = election, clock, log
        self._slow, self._new_holder = slow, new_holder
        self._resource = LEASES.on(cluster) if cluster else LEASES
        self.key = make_key(election.namespace, election.name)
        self._observed: Object | None = None  # as last seen, or as last written by us
        self._observed_at = 0.0
        self._verb = "get"  # of the latest request
        self._failure = ""  # of the latest attempt: which request failed, and why
        self._failing_since = 0.0

    @property
    def is_known(self) -> bool:
        return self._observed is not None

    @property
    def holder(self) -> str:
        """Return the identity of the holder as last seen; "" without a holder."""
        return _spec(self._observed).get("holderIdentity") or ""

    @property
    def free_at(self) -> float:
        """Return the monotonic time at which the Lease expires unless it is renewed."""
        return self._observed_at + seconds_of(_spec(self._observed))

    @property
    def is_anothers(self) -> bool:
        """Report whether another process, which may be alive, holds the lease."""
        holder = self.holder
        return holder not in ("", self._election.identity) and holder not in self._election.ended and self._is_fresh()

    @property
    def preferred_holder(self) -> str:
        """Return the candidate in whose favour the API server ends the term of the holder; "" without one."""
        return _spec(self._observed).get("preferredHolder") or ""

    def next_try(self, now: float, *, chance: float) -> float:
        """Return when a standby tries again: at the latest when the lease of another process expires.

        now: monotonic time.
        chance: uniform in [0, 1); spreads the requests of several standbys.
        """
        period = min(self._election.retry_period, STANDBY_PERIOD)
        due = now + period * (1 - STANDBY_SPREAD * chance)
        return min(due, self.free_at) if self.is_anothers else due

    @property
    def failure(self) -> tuple[str, float] | None:
        """Return the failed request of the latest attempt with its reason, and since when all attempts have failed.

        Returns None if the attempt did not fail. An attempt that finds another holder has not failed.
        """
        return (self._failure, self._failing_since) if self._failure else None

    def acquire_or_renew(self, *, leading: bool, is_first: bool = True) -> Try:
        """Try once to acquire or renew the lease. leading: this process considers itself the holder.

        is_first: try once more if another process has renewed a shared Lease at the same time.

        Source: kubernetes v1.36 client-go/tools/leaderelection/leaderelection.go, tryAcquireOrRenew.
        """
        # Another holder has usually renewed a shared Lease since, so that its version differs.
        if self._observed is not None and leading and self._is_ours() and self._is_fresh() and self._shared is None:
            outcome = yield self._update(self._observed)
            if self._took(outcome):
                return True
            text = "Failed to update lease optimistically, falling back to slow path"
            self._log.info(text, v=2, **self._facts(outcome))
            self._slow.inc()
        self._verb = "get"
        outcome = yield Get(self._resource.id, self.key)
        if isinstance(outcome, NotFound):
            return (yield from self._create())
        if not isinstance(outcome, Done):
            return self._failed("Error retrieving lease lock", outcome)
        self._observe(decode_object(outcome.body))
        assert self._observed is not None
        if self.is_anothers:
            self._failure = ""
            return False
        outcome = yield self._update(self._observed)
        if self._shared is not None and isinstance(outcome, Conflict) and is_first:
            return (yield from self.acquire_or_renew(leading=leading, is_first=False))
        return self._took(outcome) or self._failed("Failed to update lease", outcome)

    def renew_coordinated(self) -> Try:
        """Try once to renew the lease if it names this process; the API server chooses its holder.

        Source: kubernetes v1.36 client-go/tools/leaderelection/leaderelection.go, tryCoordinatedRenew.
        """
        self._verb = "get"
        outcome = yield Get(self._resource.id, self.key)
        if isinstance(outcome, NotFound):
            if self._failure != self._failure_of(NOT_ELECTED):
                self._log.info("Lease lock not found", **self._facts(outcome))
            self.note_failure(NOT_ELECTED)
            return False
        if not isinstance(outcome, Done):
            return self._failed("Error retrieving lease lock", outcome)
        self._observe(decode_object(outcome.body))
        assert self._observed is not None
        self._failure = ""
        if not self._is_fresh():
            self._log.info("Lease has expired", v=2, lock=self.key)
            return False
        if not self._is_ours():
            return False
        if self.preferred_holder:
            self._log.info("Lease is marked as 'end of term'", v=4, lock=self.key)
            return False
        self._slow.inc()
        outcome = yield self._update(self._observed)
        return self._took(outcome) or self._failed("Failed to update lock", outcome)

    def note_failure(self, why: str) -> None:
        """Record that the latest request failed without an outcome."""
        if not self._failure:
            self._failing_since = self._clock.monotonic()
        self._failure = self._failure_of(why)

    def _failure_of(self, why: str) -> str:
        return f"cannot {self._verb} {self._resource.name} {self.key}: {why}"

    def adopt(self, lease: Object, seen: float) -> None:
        """Use what another actor of this process has seen: the Lease, which has not changed since `seen`."""
        if (self._observed or {}).get("spec") != lease.get("spec"):
            self._observed, self._observed_at = lease, seen
        else:
            self._observed_at = min(self._observed_at, seen)

    def give_back(self) -> Try:
        """Release the lease, so that the next leader does not wait until it expires.

        A shared Lease is kept while another process may hold it. Each process shows that it is alive before it renews
        the Lease. So if it is not among those listed, it has not renewed the Lease before this process read it, and a
        renewal since then lets the release fail.
        """
        if self._shared is not None:
            outcome = yield Get(self._resource.id, self.key)
            if isinstance(outcome, Done):
                self._observe(decode_object(outcome.body))
                listed = yield List(
                    self._resource.id, self._election.namespace, label_selector=self._shared.label_selector
                )
            if not isinstance(outcome, Done) or not isinstance(listed, Done) or not self._is_ours():
                return False
            if self._shared.may_hold(decode_object(listed.body).get("items") or ()):
                self._log.info("lease is kept for the other replicas", lock=self.key)
                return False
        assert self._observed is not None
        stamp = format_micro_time(self._clock.now())
        spec = {
            **_spec(self._observed),
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": stamp,
            "renewTime": stamp,
        }
        outcome = yield Update(self._resource.id, self.key, encode_object({**self._observed, "spec": spec}))
        if isinstance(outcome, Done):
            self._log.info("lease released", lock=self.key)
        else:
            self._log.error("Failed to release lease", **self._facts(outcome))
        return False

    def record(self, what: str) -> Record:
        """Return an event about the lease. what: action of this process, for the message."""
        election = self._election
        meta = metadata(self._observed or {})
        return Record(
            LEASES.api_version,
            LEASES.kind,
            election.namespace,
            election.name,
            meta.get("uid") or "",
            meta.get("resourceVersion") or "",
            "Normal",
            "LeaderElection",
            f"{election.identity} {what}",
            component=election.component,
            client=election.component,
            cluster=self._resource.cluster,
        )

    def _is_ours(self) -> bool:
        """Report whether we are the holder as last seen; another process may have acquired the lease since."""
        return _spec(self._observed).get("holderIdentity") == self._election.identity

    def _is_fresh(self) -> bool:
        """Report whether the lease has not expired, by our clock."""
        return self.free_at > self._clock.monotonic()

    def _create(self) -> Try:
        election, self._verb = self._election, "create"
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"namespace": election.namespace, "name": election.name, **self._marks()},
            "spec": renewed({"leaseTransitions": -1}, election, now=self._clock.now()),
        }
        outcome = yield Create(self._resource.id, election.namespace, encode_object(lease))
        return self._took(outcome) or self._failed("Error initially creating lease lock", outcome)

    def _update(self, lease: Object) -> Update:
        self._verb = "update"
        spec = renewed(_spec(lease), self._election, now=self._clock.now())
        return Update(self._resource.id, self.key, encode_object({**lease, **self._marked(lease), "spec": spec}))

    def _marked(self, lease: Object) -> Object:
        """Return the field metadata with the labels and annotations of this process; {} if it sets none."""
        marks, meta = self._marks(), metadata(lease)
        if not marks:
            return {}
        return {"metadata": {**meta, **{what: {**(meta.get(what) or {}), **own} for what, own in marks.items()}}}

    def _took(self, outcome: Outcome) -> bool:
        if not isinstance(outcome, Done):
            return False
        self._observe(decode_object(outcome.body))
        self._failure = ""
        return True

    def _failed(self, event: str, outcome: Outcome) -> bool:
        """Log and record a failed attempt; return False. event: upstream's text."""
        self._log.error(event, **self._facts(outcome))
        self.note_failure(_reason(outcome))
        return False

    def _facts(self, outcome: Outcome) -> dict[str, str]:
        return {"lock": self.key, "error": _reason(outcome)}

    def _observe(self, lease: Object) -> None:
        before, after = (self._observed or {}).get("spec"), lease.get("spec") or {}
        if before != after:
            self._observed_at = self._clock.monotonic()
        if (before or {}).get("holderIdentity") != after.get("holderIdentity"):
            holder = after.get("holderIdentity") or ""
            if holder:  # for our own identity, "Successfully acquired lease" is logged at once
                own = holder == self._election.identity
                self._log.info("new leader elected", v=2 if own else 0, lock=self.key, identity=holder)
            self._new_holder(holder)
        self._observed = lease


def _reason(outcome: Outcome) -> str:
    """Return the server's text, or the kind of the outcome if it has none."""
    return getattr(outcome, "message", "") or type(outcome).__name__


def _spec(lease: Object | None) -> Object:
    spec: Object = (lease or {}).get("spec") or {}
    return spec
