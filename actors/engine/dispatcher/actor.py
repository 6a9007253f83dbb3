"""The dispatcher: the only actor that writes to the API server.

Takes Submit (returns one Settled a command), Attach (returns Attached), LeaseHeld, LeaseLost, Wake.

Each client has a rate limit of its own, as each clientset upstream has (--kube-api-qps, --kube-api-burst). Commands of
an old incarnation are refused, and while the lease is not held so are all but the elector's. Outcomes go from the
transport's thread straight to the sender's mailbox (_Replies). Calls of what is outside (runtime/calls) take nothing of
the API client's rate limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kcm.actors.engine.dispatcher.requests import client_of, outcome_of, request_for
from kcm.actors.engine.server_warnings import ServerWarnings
from kcm.actors.reconciliation.actor_names import ELECTOR
from kcm.actors.reconciliation.outside import Functions
from kcm.protocols.codec import encode_fields
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CLOUD_CALLS
from kcm.protocols.messages.commands import (
    Command,
    Create,
    Delete,
    Get,
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
from kcm.protocols.versions import own_version
from kcm.runtime.calls.prepared_calls import Calls
from kcm.runtime.client.api import Response, Transport
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.scheduling.limiters import TokenBucket
from kcm.runtime.scheduling.permits import ALWAYS, Permit, Tenure
from kcm.runtime.system.actor import Actor, Context, System
from kcm.runtime.system.ledger import Ledger, Passage, Statement

CALLS = frozenset({Call, *CLOUD_CALLS})
SHOWN = (Create, Update, Patch, Get, Delete)  # what they are answered with is the object as it is, or was at its end


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchLimits:
    """qps, burst: of each client; qps < 0 is no limit. timeout: seconds for one request, its retries included.

    needs_lease: refuse writes while no LeaseHeld is in force (--leader-elect). lease_timeout: seconds for one of the
    elector's requests, few enough for another try before its renew deadline.
    """

    qps: float = 20.0
    burst: int = 30
    timeout: float = 30.0
    needs_lease: bool = True
    lease_timeout: float = 5.0


def saturation(buckets: dict[str, TokenBucket], now: float) -> Mapping[str, float]:
    """Return the used part of each client's burst, 0 to 1. Called from any thread."""
    return {client: bucket.saturation(now) for client, bucket in buckets.copy().items()}


@dataclass(slots=True)  # not frozen: a frozen one takes four times as long to make, and there is one a command
class _Job:
    sender: str
    incarnation: int
    client: str
    ticket: int
    index: int
    command: Command
    since: float
    cause: int  # see ActorSystem.handled_now

    @property
    def passage(self) -> Passage:
        return Passage(self.incarnation, self.ticket, self.index)


class _Replies:
    """Sends outcomes back. The one part of the dispatcher that runs on several threads: on the dispatcher's own, the
    transport's and those of calls. It therefore holds nothing of the dispatcher's that changes.

    It does not send as the actor does: a command that was sent before this incarnation failed and was fenced has its
    outcome all the same.
    """

    def __init__(self, system: System, name: str, ledger: Ledger) -> None:
        self._system, self._name, self._ledger = system, name, ledger

    def settle(self, job: _Job, outcome: Outcome) -> None:
        """Settle a command that was not sent."""
        settled = encode_fields(Settled, job.ticket, job.index, outcome)
        self._system.deliver(job.sender, settled, sender=self._name, cause=job.cause)

    def settle_sent(self, job: _Job, outcome: Outcome, *, version: int = 0) -> None:
        """Of a command that the ledger knows. version: of the object that came back, 0 without one."""
        self.settle(job, outcome)
        self._ledger.settled(job.sender, job.passage, job.command.resource, version)


class Dispatcher(Actor):
    """Its name is "dispatcher"."""

    def __init__(
        self,
        context: Context,
        *,
        transport: Transport,
        ledger: Ledger,
        limits: DispatchLimits,
        waited: Callable[[str, float], None] = lambda _client, _seconds: None,
        buckets: dict[str, TokenBucket] | None = None,
        calls: Calls | None = None,
        functions: Functions | None = None,
        cloud: CloudProvider | None = None,
        tenure: Tenure | None = None,
        warnings: ServerWarnings | None = None,
    ) -> None:
        """waited: called with a client, and the seconds that a command of it waited for its rate limit.

        buckets: the clients' rate limits; the next incarnation goes on with them. calls: the way outside, None without
        one. functions: those of controllers. cloud: None where there is none. tenure: what the elector says of the
        lease; goes along with everything that is sent, and outlives this too. warnings: the log of the server's
        remarks, which outlives this too.
        """
        super().__init__(context)
        self._transport, self._ledger, self._limits = transport, ledger, limits
        self._waited, self._calls, self._cloud = waited, calls, cloud
        self._functions = functions if functions is not None else Functions()
        self._replies = _Replies(context.system, context.name, ledger)
        self._buckets = buckets if buckets is not None else {}
        self._queues: dict[str, deque[_Job]] = {}  # by client: what waits for its rate limit, in order
        self._current: dict[str, int] = {}  # by sender: the oldest incarnation that may write
        self._tenure = tenure if tenure is not None else Tenure()
        self._warnings = warnings if warnings is not None else ServerWarnings(self.log)

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
            case LeaseHeld(until=until):
                self._tenure.extend(until)
            case LeaseLost():
                self._tenure.end()
                self._refuse_all("the lease is lost")
            case _:
                super().receive(message)

    def _submit(self, submit: Submit) -> None:
        now = self.clock.monotonic()
        sender, incarnation, client = submit.sender, submit.incarnation, submit.client
        cause = self.context.system.handled_now()
        queue = self._queues.get(client)
        if queue is None:
            queue = self._queues[client] = deque()
            if client not in self._buckets:
                self._buckets[client] = TokenBucket(qps=self._limits.qps, burst=self._limits.burst, now=now)
        for index, command in enumerate(submit.commands):
            queue.append(_Job(sender, incarnation, client, submit.ticket, index, command, now, cause))
        self._drain(client)
        if queue:
            self._ask_for_wake()

    def _drain(self, client: str) -> None:
        """Send what the client's rate limit allows now."""
        queue, bucket = self._queues[client], self._buckets[client]
        now = self.clock.monotonic()
        while queue and not self.context.fenced:  # it may have been hung, and replaced, in the middle of this
            refusal = self._refusal(queue[0], now)
            if refusal is not None:
                self._replies.settle(queue.popleft(), Refused(refusal))
                continue
            if type(queue[0].command) in CALLS:
                self._call(queue.popleft())
                continue
            if not bucket.try_take(now):
                return
            job = queue.popleft()
            self._waited(client, now - job.since)
            self._send(job, now)

    def _refusal(self, job: _Job, now: float) -> str | None:
        if job.incarnation < self._current.get(job.sender, 0):
            return f"{job.sender} has been replaced"
        if not self.context.system.is_alive(job.sender):
            return f"{job.sender} is gone"
        if not self._limits.needs_lease or job.sender == ELECTOR:  # its writes are how one gets the lease
            return None
        return "the lease is not held" if now >= self._tenure.until else None

    def _permit(self, job: _Job, now: float) -> Permit:
        limits = self._limits
        if job.sender == ELECTOR:
            return Permit(now + min(limits.timeout, limits.lease_timeout))
        if not limits.needs_lease:
            return Permit(now + limits.timeout)
        return Permit(min(now + limits.timeout, self._tenure.until), self._tenure)  # no write may outlive the lease

    def _send(self, job: _Job, now: float) -> None:
        command = job.command
        try:
            request = request_for(command, permit=self._permit(job, now), manager=job.client)
        except (TypeError, ValueError, AttributeError) as err:  # nonsense of one sender, and nothing to the others
            self._replies.settle(job, Invalid(f"not sent: {err}"))
            return
        replies, is_shown, warnings = self._replies, isinstance(command, SHOWN), self._warnings
        self._ledger.sent(job.sender, job.passage)

        def on_response(response: Response) -> None:  # on the transport's thread
            outcome = outcome_of(response, command)
            version = own_version(outcome.body) if is_shown and isinstance(outcome, Done) else 0
            if response.warnings:
                request_in_words = in_words(command)
                warnings.log(response.warnings, client=job.client, resource=command.resource, request=request_in_words)
            replies.settle_sent(job, outcome, version=version)

        self._transport.send(request, client=client_of(command, job.client), on_response=on_response)

    def _call(self, job: _Job) -> None:
        calls, command, replies = self._calls, job.command, self._replies
        if calls is None:
            replies.settle(job, Refused("there is no way outside"))
            return
        if isinstance(command, Call):
            prepared = self._functions.prepare(job.sender, job.incarnation, job.ticket, job.index)
            if prepared is None:
                replies.settle(job, Refused("nobody waits for it any more"))
                return
        elif self._cloud is None:
            replies.settle(job, Refused("there is no cloud provider"))
            return
        else:
            assert isinstance(command, CLOUD_CALLS)
            prepared = prepare_cloud_call(self._cloud, command, sender=job.sender, incarnation=job.incarnation)
        self._ledger.sent(job.sender, job.passage)
        # It may wait for a thread: for how long, the pool says; whether it may begin then, the lease.
        permit = Permit(tenure=self._tenure) if self._limits.needs_lease else ALWAYS
        calls.send(prepared, lambda outcome: replies.settle_sent(job, outcome), permit=permit)

    def _attach(self, name: str, incarnation: int) -> None:
        self._current[name] = incarnation
        if self._calls is not None:
            self._calls.cancel(name, incarnation)
        # Also what waits here: its sender may have sent it before it knew that the dispatcher is a new one.
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

    def _refuse_all(self, why: str) -> None:
        for queue in self._queues.values():
            refused = [job for job in queue if job.sender != ELECTOR]
            kept = [job for job in queue if job.sender == ELECTOR]
            queue.clear()
            queue.extend(kept)
            for job in refused:
                self._replies.settle(job, Refused(why))

    def _ask_for_wake(self) -> None:
        now = self.clock.monotonic()
        dues = [self._buckets[client].next_token(now) for client, queue in self._queues.items() if queue]
        if dues:
            self.wake_at(min(dues))
