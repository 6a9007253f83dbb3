"""Dispatcher: the only actor that writes to the API server.

Takes Submit (replies with one Settled for each command), Attach (replies with Attached), LeaseHeld, LeaseLost, Wake;
SetClientRate, EngageBrake and ReleaseBrake from operators.

Each client has its own rate limit, like each clientset of upstream (--kube-api-qps, --kube-api-burst). Commands of an
old incarnation are refused, and without the lease all commands except the elector's. Outcomes are sent from the
transport's thread directly to the sender's mailbox (_Replies). External calls (runtime/calls) do not count towards the
rate limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from kcm.actors.engine.dispatcher.requests import client_of, is_destructive, outcome_of, request_for
from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.actors.engine.vitals import DispatcherVitals
from kcm.actors.reconciliation.actor_names import ELECTOR, LEASE_CANDIDATE, controller_of, is_elector
from kcm.actors.reconciliation.outside import Functions
from kcm.protocols.codec import encode
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CLOUD_CALLS
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    Fetch,
    Get,
    List,
    Patch,
    Submit,
    Update,
    in_words,
)
from kcm.protocols.messages.lifecycle import Attach, Attached, LeaseHeld, LeaseLost, Wake
from kcm.protocols.messages.outcomes import (
    Done,
    Invalid,
    Outcome,
    Refused,
    Settled,
)
from kcm.protocols.messages.rates import EngageBrake, ReleaseBrake, SetClientRate
from kcm.protocols.resources import split_cluster, split_path
from kcm.protocols.versions import own_version
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.client.api import Response, Transport
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.scheduling.limiters import BrakeLimits, StormBrake, TokenBucket
from kcm.runtime.scheduling.permits import ALWAYS, Permit, Tenure, Terms
from kcm.runtime.system.actor import Actor, Context, System
from kcm.runtime.system.ledger import Ledger, Passage, Statement
from kcm.runtime.system.vitals import Vitals

if TYPE_CHECKING:
    from kcm.actors.engine.spans import Tracing, WriteSpan

CALLS = frozenset({Call, *CLOUD_CALLS})
READS = (Get, List, Fetch)
ONE_CLUSTER = frozenset({""})
LANE = "storm-brake"  # queue with the writes that the storm brake holds back
MOST_REPORTED = 20  # writes named in one log line
SHOWN = (Create, Update, Patch, Get, Delete)  # the response contains the object, for Delete in its last state


class DispatchLimits(Struct, frozen=True, kw_only=True):
    """Limits of requests."""

    qps: float = 20.0  # of each client; < 0 is no limit
    burst: int = 30  # of each client
    timeout: float = 30.0  # seconds for one request, including its retries
    needs_lease: bool = True  # refuse writes without a valid LeaseHeld (--leader-elect)
    # Electors of the senders whose writes require another lease than the main one, by the sender's name.
    electors: Mapping[str, str] = field(default_factory=dict)
    lease_timeout: float = 5.0  # seconds for a request of the elector; leaves time for a retry before the deadline
    clusters: frozenset[str] = ONE_CLUSTER  # names; each has rate limits of its own


def needs_no_lease(sender: str) -> bool:
    """Report whether the writes of this actor are required to get a lease."""
    return is_elector(sender) or sender == LEASE_CANDIDATE


def saturation(buckets: dict[str, TokenBucket], now: float) -> Mapping[str, float]:
    """Return the used part of each client's burst, 0 to 1. Called from any thread."""
    return {client: bucket.saturation(now) for client, bucket in buckets.copy().items() if client != LANE}


def unknown_cluster(path: str, clusters: Iterable[str]) -> str:
    """Return the error for a request to a cluster that the program does not have, or to none of several."""
    known = ", ".join(sorted(filter(None, clusters)))
    if not known:
        return f"{path}: this program has one cluster, without a name"
    return f"{path} is on none of the clusters {known}: name one by RESOURCE.on(cluster)"


class _Job(Struct, frozen=True):
    sender: str
    incarnation: int
    client: str
    ticket: int
    index: int
    command: Command
    since: float
    cause: int  # see ActorSystem.handled_now
    span: WriteSpan | None = None  # None: not traced

    @property
    def passage(self) -> Passage:
        return Passage(self.incarnation, self.ticket, self.index)


class _Replies:
    """Sends outcomes to the senders of commands, from the threads of the dispatcher, the transport and calls.

    It has no mutable state of the dispatcher, because it is the only part of it that runs on several threads. It sends
    through the system, so that an outcome is sent even if this incarnation was fenced after it had sent the command.
    """

    def __init__(self, system: System, name: str, ledger: Ledger) -> None:
        self._system, self._name, self._ledger = system, name, ledger

    def settle(self, job: _Job, outcome: Outcome) -> None:
        """Settle a command that was not sent."""
        if job.span is not None:
            job.span.end(outcome)
        settled = encode(Settled(job.ticket, job.index, outcome))
        self._system.deliver(job.sender, settled, sender=self._name, cause=job.cause)

    def settle_sent(self, job: _Job, outcome: Outcome, *, version: int = 0) -> None:
        """Settle a command that was sent. version: resource version of the returned object, 0 without an object."""
        self.settle(job, outcome)
        self._ledger.settled(job.sender, job.passage, job.command.resource, version)


class Dispatcher(Actor):
    """Actor that executes commands, named "dispatcher"."""

    def __init__(
        self,
        context: Context,
        *,
        transport: Transport,
        ledger: Ledger,
        limits: DispatchLimits,
        waited: Callable[[str, str, float], None] = lambda _cluster, _verb, _seconds: None,
        buckets: dict[str, TokenBucket] | None = None,
        calls: Calls | None = None,
        functions: Functions | None = None,
        cloud: CloudProvider | None = None,
        terms: Terms | None = None,
        warnings: ServerWarnings | None = None,
        tracing: Tracing | None = None,
        vitals: Vitals | None = None,
        brake: StormBrake | None = None,
    ) -> None:
        """Create a dispatcher. `buckets`, `terms` and `warnings` are shared with later incarnations.

        waited: called with the cluster of a request ("" in a program with one), its HTTP method, and the seconds that
            it waited for the rate limit.
        buckets: rate limits by client.
        vitals: where it publishes its state.
        brake: shared with later incarnations as well.
        calls: external calls; None if they are disabled, as in a replay.
        functions: functions of external calls that controllers submitted.
        terms: state of the lease, attached to every request.
        warnings: log of the server's warnings.
        tracing: spans of the reconciliations that submit commands; None without traces.
        """
        super().__init__(context)
        self._transport, self._ledger, self._limits = transport, ledger, limits
        self._waited, self._calls, self._cloud = waited, calls, cloud
        self._functions = functions if functions is not None else Functions()
        self._replies = _Replies(context.system, context.name, ledger)
        self._buckets = buckets if buckets is not None else {}
        self._queues: dict[str, deque[_Job]] = {}  # by client: what waits for its rate limit, in order
        self._current: dict[str, int] = {}  # by sender: the oldest incarnation that may write
        self._terms = terms if terms is not None else Terms()
        self._warnings = warnings if warnings is not None else ServerWarnings(self.log)
        self._tracing = tracing
        self._vitals = vitals if vitals is not None else Vitals()
        self._brake = brake if brake is not None else StormBrake(BrakeLimits(), now=self.clock.monotonic())
        self._queues[LANE], self._buckets[LANE] = deque(), self._brake.bucket
        self._throttled: dict[str, int] = {}  # by lane

    def started(self) -> None:
        self._vitals.say(self.name, DispatcherVitals(self._buckets, self._queues, self._throttled))

    def receive(self, message: Any) -> None:
        match message:
            case Submit():
                self._submit(message)
            case Wake():
                for client in list(self._queues):
                    self._drain(client)
                self._ask_for_wake()
            case Attach(name=name, incarnation=incarnation):
                self._attach(name, incarnation)
            case LeaseHeld(until=until, elector=elector):
                self._terms.of(elector).extend(until)
            case LeaseLost(elector=elector):
                self._terms.end(elector)
                self._report_writes_in_flight(elector)
                self._refuse_all("the lease is lost", elector)
            case SetClientRate():
                self._set_client_rate(message)
            case EngageBrake(qps=qps):
                self._engage_brake("requested by an operator", qps)
            case ReleaseBrake():
                self._release_brake()
            case _:
                super().receive(message)

    def _submit(self, submit: Submit) -> None:
        if self._limits.clusters is not ONE_CLUSTER:
            self._submit_by_cluster(submit)
            return
        now = self.clock.monotonic()
        sender, incarnation, client = submit.sender, submit.incarnation, submit.client
        cause = self.context.system.handled_now()
        queue = self._queues.get(client)
        if queue is None:
            queue = self._queues[client] = deque()
            if client not in self._buckets:
                self._buckets[client] = TokenBucket(qps=self._limits.qps, burst=self._limits.burst, now=now)
        if self._tracing is None or (spans := self._tracing.begin_writes(submit, cause)) is None:
            for index, command in enumerate(submit.commands):
                queue.append(_Job(sender, incarnation, client, submit.ticket, index, command, now, cause))
        else:
            for index, (command, span) in enumerate(zip(submit.commands, spans, strict=True)):
                queue.append(_Job(sender, incarnation, client, submit.ticket, index, command, now, cause, span))
        self._drain(client)
        if self._queues[LANE]:
            self._ask_for_wake()
        if queue:
            self._throttled[client] = self._throttled.get(client, 0) + min(len(queue), len(submit.commands))
            self._ask_for_wake()

    def _submit_by_cluster(self, submit: Submit) -> None:
        """Queue the commands of a program with several clusters, each under the rate limit of its cluster."""
        now, cause = self.clock.monotonic(), self.context.system.handled_now()
        spans = self._tracing.begin_writes(submit, cause) if self._tracing is not None else None
        lanes: dict[str, None] = {}
        for index, command in enumerate(submit.commands):
            cluster = split_cluster(command.resource)[0]
            lane = f"{cluster}:{submit.client}" if cluster else submit.client
            if lane not in self._buckets:
                self._buckets[lane] = TokenBucket(qps=self._limits.qps, burst=self._limits.burst, now=now)
            span = spans[index] if spans is not None else None
            job = _Job(
                submit.sender, submit.incarnation, submit.client, submit.ticket, index, command, now, cause, span
            )
            self._queues.setdefault(lane, deque()).append(job)
            lanes[lane] = None
        for lane in lanes:
            self._drain(lane)
        if any(self._queues[lane] for lane in (*lanes, LANE)):
            self._ask_for_wake()

    def _drain(self, client: str) -> None:
        """Send what the client's rate limit allows now. client: with its cluster in front, if there are several."""
        queue, bucket = self._queues[client], self._buckets[client]
        now = self.clock.monotonic()
        while queue and not self.context.fenced:  # this incarnation may have been replaced in the meantime
            refusal = self._refusal(queue[0], now)
            if refusal is not None:
                self._replies.settle(queue.popleft(), Refused(refusal))
                continue
            if type(queue[0].command) in CALLS:
                self._call(queue.popleft())
                continue
            destroys = is_destructive(queue[0].command)
            if destroys and self._brake.state is not None and client != LANE:
                self._queues[LANE].append(queue.popleft())
                continue
            if not bucket.try_take(now):
                return
            if destroys and self._brake.count(now):
                self._report_brake()
                continue
            self._send(queue.popleft(), now)

    def _set_client_rate(self, wanted: SetClientRate) -> None:
        """Change the rate limit of a client, and send what it allows now. Unknown clients are ignored."""
        bucket = self._buckets.get(wanted.client)
        if bucket is None or wanted.client == LANE:
            return
        bucket.set_limits(qps=wanted.qps, burst=wanted.burst, now=self.clock.monotonic())
        self.log.info("rate limit of client set", client=wanted.client, qps=bucket.qps, burst=bucket.burst)
        if wanted.client in self._queues:
            self._drain(wanted.client)
        self._ask_for_wake()

    def _engage_brake(self, reason: str, qps: float | None) -> None:
        self._brake.engage(reason, now=self.clock.monotonic(), qps=qps)
        self._report_brake()
        self._ask_for_wake()

    def _report_brake(self) -> None:
        state = self._brake.state
        assert state is not None
        self.log.warning(
            "storm brake engaged, holding back deletions and evictions", reason=state.reason, qps=state.qps
        )

    def _release_brake(self) -> None:
        """Return the writes that were held back to the front of their clients' queues."""
        if self._brake.state is None:
            return
        held = self._queues[LANE]
        self.log.info("storm brake released", held=len(held), passed=self._brake.passed)
        self._brake.release(self.clock.monotonic(), held=len(held))
        lanes = set()
        while held:
            job = held.pop()
            lane = self._lane_of(job)
            self._queues[lane].appendleft(job)
            lanes.add(lane)
        for lane in sorted(lanes):
            self._drain(lane)
        self._ask_for_wake()

    def _lane_of(self, job: _Job) -> str:
        if self._limits.clusters is ONE_CLUSTER:
            return job.client
        cluster = split_cluster(job.command.resource)[0]
        return f"{cluster}:{job.client}" if cluster else job.client

    def _refusal(self, job: _Job, now: float) -> str | None:
        if job.incarnation < self._current.get(job.sender, 0):
            return f"{job.sender} has been replaced"
        if not self.context.system.is_alive(job.sender):
            return f"{job.sender} is gone"
        if not self._limits.needs_lease or needs_no_lease(job.sender):
            return None
        return "the lease is not held" if now >= self._tenure_of(job.sender).until else None

    def _permit(self, job: _Job, now: float) -> Permit:
        limits = self._limits
        if needs_no_lease(job.sender):
            return Permit(now + min(limits.timeout, limits.lease_timeout))
        if not limits.needs_lease:
            return Permit(now + limits.timeout)
        tenure = self._tenure_of(job.sender)
        return Permit(min(now + limits.timeout, tenure.until), tenure)  # no write may outlive the lease

    def _send(self, job: _Job, now: float) -> None:
        command = job.command
        try:
            request = request_for(command, permit=self._permit(job, now), manager=job.client)
            cluster = split_path(request.path)[0]
            if cluster not in self._limits.clusters:
                raise ValueError(unknown_cluster(request.path, self._limits.clusters))
        except (TypeError, ValueError, AttributeError) as err:  # a mistake of this sender does not affect the others
            self._replies.settle(job, Invalid(f"not sent: {err}"))
            return
        self._waited(cluster, request.method, now - job.since)
        replies, is_shown, warnings = self._replies, isinstance(command, SHOWN), self._warnings
        self._ledger.sent(job.sender, job.passage, command)
        if job.span is not None:
            request = job.span.sent(request)

        def on_response(response: Response) -> None:  # on the transport's thread
            outcome = outcome_of(response, command)
            version = own_version(outcome.body) if is_shown and isinstance(outcome, Done) else 0
            if response.warnings:
                request_in_words = in_words(command)
                warnings.log(response.warnings, client=job.client, resource=command.resource, request=request_in_words)
            if job.span is not None:
                job.span.responded(response.status)
            replies.settle_sent(job, outcome, version=version)

        self._transport.send(request, client=client_of(command, job.client), on_response=on_response)

    def _call(self, job: _Job) -> None:
        calls, command, replies = self._calls, job.command, self._replies
        if calls is None:
            replies.settle(job, Refused("external calls are disabled"))
            return
        if isinstance(command, Call):
            prepared = self._functions.prepare(job.sender, job.incarnation, job.ticket, job.index)
            if prepared is None:
                replies.settle(job, Refused("its sender no longer waits for it"))
                return
        elif self._cloud is None:
            replies.settle(job, Refused("there is no cloud provider"))
            return
        else:
            assert isinstance(command, CLOUD_CALLS)
            prepared = prepare_cloud_call(self._cloud, command, sender=job.sender, incarnation=job.incarnation)
        self._ledger.sent(job.sender, job.passage, command)
        # The call may wait for a thread. The pool limits the wait; the permit checks the lease when the call starts.
        permit = Permit(tenure=self._tenure_of(job.sender)) if self._limits.needs_lease else ALWAYS
        calls.send(prepared, lambda outcome: replies.settle_sent(job, outcome), permit=permit)

    def _attach(self, name: str, incarnation: int) -> None:
        self._current[name] = incarnation
        if self._calls is not None:
            self._calls.cancel(name, incarnation)
        # Include queued commands: the sender may have sent them before this incarnation was announced.
        waiting = [
            [job.ticket, job.index]
            for queue in self._queues.values()
            for job in queue
            if job.sender == name and job.incarnation == incarnation
        ]

        def clear(statement: Statement) -> None:
            mine = [[p.ticket, p.number] for p in statement.under_way if p.incarnation == incarnation]
            self.tell(name, Attached(incarnation, dict(statement.versions), mine + waiting))

        self._ledger.when_clear(name, incarnation, clear)

    def _elector_of(self, sender: str) -> str:
        return self._limits.electors.get(sender, ELECTOR)

    def _tenure_of(self, sender: str) -> Tenure:
        return self._terms.of(self._elector_of(sender))

    def _report_writes_in_flight(self, elector: str) -> None:
        """Log the writes of the ended term that have no response yet. None of them is sent any more, or repeated."""
        writes = [
            f"{in_words(command)} ({controller_of(sender) or sender})"
            for sender, command in self._ledger.in_flight()
            if self._is_under(elector, sender) and not isinstance(command, READS)
        ]
        if writes:
            self.log.warning(
                "outcome of writes is unknown, the lease was lost meanwhile",
                count=len(writes),
                writes=writes[:MOST_REPORTED],
            )

    def _is_under(self, elector: str, sender: str) -> bool:
        """Report whether the writes of this sender require the lease of this elector."""
        return not needs_no_lease(sender) and self._elector_of(sender) == elector

    def _refuse_all(self, why: str, elector: str) -> None:
        for queue in self._queues.values():
            refused = [job for job in queue if self._is_under(elector, job.sender)]
            kept = [job for job in queue if not self._is_under(elector, job.sender)]
            queue.clear()
            queue.extend(kept)
            for job in refused:
                self._replies.settle(job, Refused(why))

    def _ask_for_wake(self) -> None:
        now = self.clock.monotonic()
        dues = [self._buckets[client].next_token(now) for client, queue in self._queues.items() if queue]
        if dues:
            self.wake_at(min(dues))
