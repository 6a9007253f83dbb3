"""GET /zones, /clients and /brake, and the changes of their rates. Documented in docs/operations/control.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from kcm.actors.controllers.nodes.node_lifecycle.reconciler import NAME as NODE_LIFECYCLE
from kcm.actors.controllers.nodes.node_lifecycle.zone_eviction_queue import zone_queue_name
from kcm.actors.controllers.nodes.node_lifecycle.zones import ZONES
from kcm.actors.engine.dispatcher import LANE
from kcm.actors.engine.vitals import DispatcherVitals, ZoneQueueVitals, ZonesVitals, ZoneVitals
from kcm.actors.reconciliation.actor_names import DISPATCHER, controller_name
from kcm.protocols.messages.eviction import PauseEvictions, ResumeEvictions, SetZoneRate
from kcm.protocols.messages.rates import EngageBrake, ReleaseBrake, SetClientRate
from kcm.protocols.times import format_micro_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.scheduling.limiters import StormBrake, TokenBucket
from kcm.runtime.serving.debug_pages import ChangeRefusedError
from kcm.runtime.system.actor_system import ActorSystem
from kcm.runtime.system.vitals import Vitals

UNNAMED = "-"  # in place of the empty name of the zone of nodes without labels
HIGHEST_ZONE_RATE = 1000.0  # nodes per second
HIGHEST_CLIENT_RATE = 100_000.0  # requests per second
HIGHEST_BURST = 1_000_000


class ZoneStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of one zone of nodes."""

    name: str  # "region:zone"; "-" for nodes without these labels
    state: str  # Normal, PartialDisruption or FullDisruption
    nodes: int  # without those that a label excludes from disruption checks
    ready: int
    not_ready: int
    spared: bool  # no node is evicted, because all zones are disrupted, or as flags require
    qps: float | None  # nodes per second that are released for eviction; null before the queue has a rate
    usual_qps: float  # rate that its state requires
    is_set: bool  # an operator has set the rate
    burst: int
    paused: bool
    waiting: int  # nodes in the eviction queue
    next_nodes: tuple[str, ...]  # the first of them, at most 20
    released: int  # nodes that the present incarnation of the queue has released
    next_in_seconds: float | None  # until the next node may be released; null without a rate


class ZoneStatuses(Struct, frozen=True, kw_only=True):
    """Response to GET /zones."""

    at: str
    zones: tuple[ZoneStatus, ...]


class ClientStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """State of the rate limit of one API client, which one or several controllers share."""

    name: str
    qps: float  # requests per second; below 0 is no limit
    burst: int
    usual_qps: float  # of the flags
    usual_burst: int
    is_set: bool  # an operator has set the limit
    used: float  # part of the burst that is used, from 0 to 1
    waiting: int  # commands that wait for the limit
    throttled: int  # commands that had to wait, since the start of the dispatcher


class ClientStatuses(Struct, frozen=True, kw_only=True):
    """Response to GET /clients."""

    at: str
    clients: tuple[ClientStatus, ...]


class BrakeStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """Response to GET /brake."""

    at: str
    engaged: bool
    reason: str  # "" while it is released
    engaged_seconds: float | None
    held: int  # writes that are held back
    passed: int  # destructive writes that were sent while it is engaged
    braked_qps: float  # writes per second that it lets through
    limit: int  # number of writes within windowSeconds above which it engages; 0: only by request
    window_seconds: float


class RateChange(Struct, frozen=True):
    """Change of a rate; implements PendingChange. read: returns the present state. is_visible: in such a state."""

    is_needed: bool
    read: Callable[[], Struct]
    is_visible: Callable[[], bool]

    def is_done(self) -> bool:
        return self.is_visible()

    def result(self) -> Struct:
        return self.read()


class RateReader:
    """Reader of the rates on any thread, and sender of the messages that change them."""

    def __init__(
        self,
        *,
        actors: ActorSystem,
        vitals: Vitals,
        brake: StormBrake,
        clock: Clock,
        lease_clients: Collection[str],
    ) -> None:
        """Create a reader. lease_clients: clients whose limit must not be changed, because they renew the lease."""
        self._actors, self._vitals, self._brake, self._clock = actors, vitals, brake, clock
        self._lease_clients = frozenset(lease_clients)

    # Zones.

    def zones(self) -> ZoneStatuses:
        found = self._zones()
        return ZoneStatuses(at=self._at(), zones=tuple(self._zone(name, found[name]) for name in sorted(found)))

    def zone(self, name: str) -> ZoneStatus:
        """Return the state of one zone. Raises LookupError."""
        zone = "" if name == UNNAMED else name
        state = self._zones().get(zone)
        if state is None:
            raise LookupError(f'zones "{name}" not found')
        return self._zone(zone, state)

    def _zones(self) -> Mapping[str, ZoneVitals]:
        found = self._vitals.of(ZONES, ZonesVitals)
        runs = self._actors.is_alive(controller_name(NODE_LIFECYCLE))
        return found.zones if found is not None and runs else {}

    def _zone(self, name: str, state: ZoneVitals) -> ZoneStatus:
        queue = self._vitals.of(zone_queue_name(name), ZoneQueueVitals)
        due = None if queue is None else queue.due
        return ZoneStatus(
            name=name or UNNAMED,
            state=state.state,
            nodes=state.ready + state.not_ready,
            ready=state.ready,
            not_ready=state.not_ready,
            spared=state.spared,
            qps=None if queue is None else queue.qps,
            usual_qps=state.rate,
            is_set=queue is not None and queue.override is not None,
            burst=0 if queue is None else queue.burst,
            paused=queue is not None and queue.paused,
            waiting=0 if queue is None else queue.waiting,
            next_nodes=() if queue is None else queue.next_nodes,
            released=0 if queue is None else queue.released,
            next_in_seconds=None if due is None else round(max(0.0, due - self._clock.monotonic()), 3),
        )

    def change_zone(self, name: str, action: str, settings: Mapping[str, object]) -> RateChange:
        """Request a change of a zone. Raises LookupError and ValueError."""
        self.zone(name)  # raises an error for an unknown zone
        zone = "" if name == UNNAMED else name
        if action == "rate":
            qps = _number(settings, "qps", highest=HIGHEST_ZONE_RATE)
            _refuse_others(settings, "qps")

            def is_visible() -> bool:
                now = self.zone(name)
                return not now.is_set if qps is None else (now.is_set and now.qps == qps)

            message: SetZoneRate | PauseEvictions | ResumeEvictions = SetZoneRate(zone, qps)
        else:
            _refuse_others(settings)
            wanted = action == "pause"
            message = PauseEvictions(zone) if wanted else ResumeEvictions(zone)

            def is_visible() -> bool:
                return self.zone(name).paused == wanted

        is_needed = not is_visible()
        if is_needed:
            self._actors.tell(controller_name(NODE_LIFECYCLE), message)
        return RateChange(is_needed, lambda: self.zone(name), is_visible)

    # Clients.

    def clients(self) -> ClientStatuses:
        found = self._dispatcher()
        names = sorted(name for name in dict(found.buckets) if name != LANE)
        return ClientStatuses(at=self._at(), clients=tuple(self.client(name) for name in names))

    def client(self, name: str) -> ClientStatus:
        """Return the state of one client. Raises LookupError."""
        found = self._dispatcher()
        bucket = found.buckets.get(name)
        if bucket is None or name == LANE:
            raise LookupError(f'clients "{name}" not found')
        usual_qps, usual_burst = bucket.usual
        return ClientStatus(
            name=name,
            qps=bucket.qps,
            burst=bucket.burst,
            usual_qps=usual_qps,
            usual_burst=usual_burst,
            is_set=_limits(bucket) != bucket.usual,
            used=round(bucket.saturation(self._clock.monotonic()), 3),
            waiting=len(found.queues.get(name, ())),
            throttled=found.throttled.get(name, 0),
        )

    def _dispatcher(self) -> DispatcherVitals:
        return self._vitals.of(DISPATCHER, DispatcherVitals) or DispatcherVitals({}, {}, {})

    def change_client(self, name: str, action: str, settings: Mapping[str, object]) -> RateChange:
        """Request a change of a client's limit. Raises LookupError, ValueError and ChangeRefusedError."""
        del action  # rate is the only one
        before = self.client(name)
        qps = _number(settings, "qps", highest=HIGHEST_CLIENT_RATE, above_zero=True)
        burst = _whole(settings, "burst", highest=HIGHEST_BURST)
        _refuse_others(settings, "qps", "burst")
        if name in self._lease_clients:
            raise ChangeRefusedError(f"cannot change the rate of {name}: it renews the lease")
        wanted = (
            before.usual_qps if qps is None else qps,
            before.usual_burst if burst is None else burst,
        )

        def is_visible() -> bool:
            now = self.client(name)
            return (now.qps, now.burst) == wanted

        is_needed = not is_visible()
        if is_needed:
            self._actors.tell(DISPATCHER, SetClientRate(name, qps, burst))
        return RateChange(is_needed, lambda: self.client(name), is_visible)

    # The storm brake.

    def brake(self) -> BrakeStatus:
        brake, state = self._brake, self._brake.state
        return BrakeStatus(
            at=self._at(),
            engaged=state is not None,
            reason="" if state is None else state.reason,
            engaged_seconds=None if state is None else round(self._clock.monotonic() - state.since, 3),
            held=len(self._dispatcher().queues.get(LANE, ())),
            passed=brake.passed,
            braked_qps=brake.limits.qps if state is None else state.qps,
            limit=brake.limits.limit,
            window_seconds=brake.limits.window,
        )

    def change_brake(self, action: str, settings: Mapping[str, object]) -> RateChange:
        """Request to engage or release the brake. Raises ValueError."""
        qps = None
        if action == "engage":
            qps = _number(settings, "qps", highest=HIGHEST_CLIENT_RATE, is_required=False)
        _refuse_others(settings, *(["qps"] if action == "engage" else []))
        wanted_qps = self._brake.limits.qps if qps is None else qps

        def is_visible() -> bool:
            state = self._brake.state
            return state is None if action == "release" else state is not None and state.qps == wanted_qps

        is_needed = not is_visible()
        if is_needed:
            self._actors.tell(DISPATCHER, ReleaseBrake() if action == "release" else EngageBrake(qps))
        return RateChange(is_needed, self.brake, is_visible)

    def _at(self) -> str:
        return format_micro_time(self._clock.now())


def _limits(bucket: TokenBucket) -> tuple[float, int]:
    return bucket.qps, bucket.burst


def _number(
    settings: Mapping[str, object], field: str, *, highest: float, above_zero: bool = False, is_required: bool = True
) -> float | None:
    """Return a rate; None for null, which returns to the usual rate. Raises ValueError."""
    if field not in settings:
        if is_required:
            raise ValueError(f"{field} is missing: a number, or null for the usual rate")
        return None
    value = settings[field]
    if value is None:
        return None
    good = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not 0 <= value <= highest or (above_zero and value == 0):  # type: ignore[operator]
        least = "above 0" if above_zero else "from 0"
        raise ValueError(f"{field} is a number {least} to {highest:g}, or null, not {value!r:.40}")
    return float(value)  # type: ignore[arg-type]


def _whole(settings: Mapping[str, object], field: str, *, highest: int) -> int | None:
    value = settings.get(field)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= highest:
        raise ValueError(f"{field} is a whole number from 1 to {highest}, or null, not {value!r:.40}")
    return value


def _refuse_others(settings: Mapping[str, object], *known: str) -> None:
    if unknown := sorted(settings.keys() - set(known)):
        raise ValueError(f"unknown settings: {', '.join(unknown)[:80]}")
