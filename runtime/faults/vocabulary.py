"""Faults as values: each has a kind, a time window, a rate and a scope, and is written as one line.

    actor-crashed 3..20 rate=0.02 actor=controller:* most=3
    watch-lagging 0..30 resource=pods seconds=12

A plan is a tuple of faults. Times are virtual seconds from the start of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from kcm.protocols.arguments import check_text


class FaultKind(StrEnum):
    """Kinds of faults.

    Some strike with a probability of their rate at each opportunity; the others last for their whole window.
    """

    # One opportunity per message that an actor handles; in the simulator also per 5 s without messages.
    ACTOR_CRASHED = "actor-crashed"  # before it handles the message, and so between two yields of a reconciler
    ACTOR_BROKEN = "actor-broken"  # crashes in the middle of a handler, when it sends a message
    ACTOR_VANISHED = "actor-vanished"  # ends without an ActorFailed
    ACTOR_HUNG = "actor-hung"  # handles no message for `seconds`, or forever if that is 0
    # One opportunity per reconciliation that begins. Its object is the key.
    RECONCILER_BLOCKED = "reconciler-blocked"  # blocks its actor's thread for `seconds`, or forever if that is 0
    # One opportunity per message that is sent. Messages from one sender to one receiver stay in order.
    MESSAGE_DELAYED = "message-delayed"  # by up to `seconds`
    # One opportunity per request.
    REQUEST_HELD = "request-held"  # waits in the client for `seconds` before it is sent, for example for a connection
    COMMAND_LOST = "command-lost"  # does not reach the server; the client notices at its timeout
    COMMAND_REFUSED = "command-refused"  # the connection is refused
    COMMAND_DELAYED = "command-delayed"  # reaches the server `seconds` late, even after the client's timeout
    COMMAND_REPEATED = "command-repeated"  # carried out twice; the client receives the second response
    COMMAND_ANSWERED = "command-answered"  # response with `status`, and not carried out; seconds: Retry-After
    OUTCOME_LOST = "outcome-lost"  # carried out, and the response is lost
    OUTCOME_REPEATED = "outcome-repeated"  # the response is delivered twice
    # One opportunity per watch that is opened.
    WATCH_REWOUND = "watch-rewound"  # begins `amount` revisions before the requested one
    # Lists the state `seconds` ago, unless a newer one was requested; the following watch lags by as much.
    LIST_STALE = "list-stale"
    # One opportunity per delivery of a watch.
    WATCH_DROPPED = "watch-dropped"  # the connection breaks, and data in transit is lost
    WATCH_STALLED = "watch-stalled"  # no more events are sent, and the connection stays open
    WATCH_LAGGING = "watch-lagging"  # late by `seconds`
    BOOKMARKS_WITHHELD = "bookmarks-withheld"
    # One opportunity per outside call. Of a function, the resource is its name ("Directory.remove"), and the object
    # the call's key, by default the reconciled key. Of a cloud call they are "instances", "routes" or
    # "loadbalancers", and a node or a service.
    CALL_LOST = "call-lost"  # is not made; the caller notices at its timeout
    CALL_DELAYED = "call-delayed"  # is made `seconds` late
    CALL_HUNG = "call-hung"  # blocks its thread for `seconds`, or forever if that is 0
    CALL_REPEATED = "call-repeated"  # carried out twice; the controller receives the second outcome
    # Not carried out: a function raises ConnectionError, a cloud returns `status`; `seconds` is the Retry-After.
    CALL_ANSWERED = "call-answered"
    ANSWER_LOST = "answer-lost"  # carried out, and the outcome is lost
    ANSWER_DELAYED = "answer-delayed"  # carried out, and the outcome is `seconds` late
    # These last for the whole window.
    PARTITION = "partition"  # nothing passes between the process and the server
    SERVER_RESTARTED = (
        "server-restarted"  # down during the window, then without its history of changes, so that old watches get 410
    )
    SERVER_AWAY = "server-away"  # down during the window, then with its previous state
    CLOCK_JUMPED = "clock-jumped"  # the process's wall clock is off by `seconds`
    PROCESS_CRASHED = "process-crashed"  # all its actors at once; restarted at the end of the window
    PROCESS_PAUSED = "process-paused"  # all its threads stop while the clock continues, as on a suspended machine
    HTTP_HELD = "http-held"  # the HTTP thread is blocked, with all requests, responses and watches
    LEASE_STOLEN = "lease-stolen"  # at the start another identity acquires the lease, for `seconds`
    NODE_SILENT = "node-silent"  # nodes (object) do and send nothing
    NODE_FLAPPING = "node-flapping"  # alternately silent and back, each for `seconds`
    ZONE_SILENT = "zone-silent"  # all nodes of the zones (object)
    # One opportunity per call of a webhook by the simulated API server. The resource is its path, "/validate/NAME".
    WEBHOOK_DOWN = "webhook-down"  # the connection is refused
    WEBHOOK_SLOW = "webhook-slow"  # responds `seconds` late, and the call fails if that is its timeout or more
    WEBHOOK_ANSWERED = "webhook-answered"  # response with `status`, and the function is not called
    WEBHOOK_EXPIRED = "webhook-expired"  # the serving certificate counts as expired


OF_CALLS = (
    FaultKind.CALL_LOST,
    FaultKind.CALL_DELAYED,
    FaultKind.CALL_HUNG,
    FaultKind.CALL_REPEATED,
    FaultKind.CALL_ANSWERED,
    FaultKind.ANSWER_LOST,
    FaultKind.ANSWER_DELAYED,
)
OF_WEBHOOKS = (
    FaultKind.WEBHOOK_DOWN,
    FaultKind.WEBHOOK_SLOW,
    FaultKind.WEBHOOK_ANSWERED,
    FaultKind.WEBHOOK_EXPIRED,
)
# Of the way to an API server, or of the server itself. With several clusters each concerns those that it names.
OF_SERVERS = (
    FaultKind.REQUEST_HELD,
    FaultKind.COMMAND_LOST,
    FaultKind.COMMAND_REFUSED,
    FaultKind.COMMAND_DELAYED,
    FaultKind.COMMAND_REPEATED,
    FaultKind.COMMAND_ANSWERED,
    FaultKind.OUTCOME_LOST,
    FaultKind.OUTCOME_REPEATED,
    FaultKind.WATCH_REWOUND,
    FaultKind.LIST_STALE,
    FaultKind.WATCH_DROPPED,
    FaultKind.WATCH_STALLED,
    FaultKind.WATCH_LAGGING,
    FaultKind.BOOKMARKS_WITHHELD,
    FaultKind.PARTITION,
    FaultKind.SERVER_RESTARTED,
    FaultKind.SERVER_AWAY,
    FaultKind.LEASE_STOLEN,
)
STRIKES_THE_IDLE = (FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_VANISHED, FaultKind.ACTOR_HUNG)
ANSWERED = (FaultKind.COMMAND_ANSWERED, FaultKind.CALL_ANSWERED, FaultKind.WEBHOOK_ANSWERED)  # require a status


class InjectedError(Exception):
    """Exception in an actor that a fault of the plan crashes."""


class Fault(Struct, frozen=True, kw_only=True):
    """Planned fault.

    start, until: its window, in seconds; until None is the end of the run.
    rate: probability at each opportunity, in [0, 1].
    most: maximum number of strikes; None for no limit.
    seconds, status, amount: see FaultKind.
    process, actor, resource, object: shell patterns for the name of the process and of the actor, the plural of the
        resource, and "namespace/name" (the name of a zone). A missing property matches as the empty name.
    cluster: shell pattern for the name of the cluster, in a world with several; of the kinds OF_SERVERS.
    """

    kind: FaultKind
    start: float = 0.0
    until: float | None = None
    rate: float = 1.0
    most: int | None = None
    seconds: float = 0.0
    status: int = 0
    amount: int = 0
    process: str = "*"
    actor: str = "*"
    resource: str = "*"
    object: str = "*"
    cluster: str = "*"

    def __post_init__(self) -> None:
        """Raise ValueError for invalid values."""
        if not 0 <= self.rate <= 1:
            raise ValueError(f"{self.kind}: rate is from 0 to 1, got {self.rate}")
        if self.until is not None and self.until < self.start:
            raise ValueError(f"{self.kind}: its window ends before it starts: {self.start}..{self.until}")
        if self.kind in ANSWERED and not 400 <= self.status <= 599:
            raise ValueError(f"{self.kind}: status is from 400 to 599, got {self.status}")
        if self.cluster != "*" and self.kind not in OF_SERVERS:
            raise ValueError(f"{self.kind} concerns no cluster, got {self.cluster!r}")

    def is_on(self, now: float) -> bool:
        return self.start <= now and (self.until is None or now < self.until)

    def concerns(
        self, *, process: str = "", actor: str = "", resource: str = "", key: str = "", cluster: str = ""
    ) -> bool:
        return (
            _matches(process, self.process)
            and _matches(actor, self.actor)
            and _matches(resource, self.resource)
            and _matches(key, self.object)
            and _matches(cluster, self.cluster)
        )

    def concerns_cluster(self, name: str) -> bool:
        return _matches(name, self.cluster)

    def __str__(self) -> str:
        until = "" if self.until is None else f"{self.until:g}"
        words = [str(self.kind), f"{self.start:g}..{until}"]
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value != default:
                words.append(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}")
        return " ".join(words)


# Of the fields after kind, start and until, which are written without their names.
_DEFAULTS: dict[str, Any] = dict(zip(Fault.__struct_fields__[3:], Fault.__struct_defaults__[2:], strict=True))
_READERS = {"rate": float, "seconds": float, "most": int, "status": int, "amount": int}


def _matches(name: str, pattern: str) -> bool:
    return pattern == "*" or fnmatchcase(name, pattern)


def format_faults(faults: Iterable[Fault]) -> str:
    """Format faults in one line, separated by "; ", for parse_faults."""
    return "; ".join(map(str, faults))


def parse_faults(text: str) -> tuple[Fault, ...]:
    """Parse faults separated by ";". Raises ValueError that names the invalid fault, TypeError if not a str."""
    check_text("parse_faults", text, may_be_empty=True)
    return tuple(parse_fault(part) for part in text.split(";") if part.strip())


def parse_fault(text: str) -> Fault:
    """Parse one fault. Raises the errors of parse_faults."""
    kind, _, rest = text.strip().partition(" ")
    words = rest.split()
    try:
        values: dict[str, object] = {"kind": FaultKind(kind)}
        if words and ".." in words[0] and "=" not in words[0]:
            start, _, until = words.pop(0).partition("..")
            values["start"] = float(start or 0)
            values["until"] = float(until) if until else None
        for word in words:
            name, separator, value = word.partition("=")
            if not separator or name not in _DEFAULTS:
                raise ValueError(f"{word!r} is no setting of a fault")
            values[name] = _READERS.get(name, str)(value)
        return Fault(**values)  # type: ignore[arg-type]
    except ValueError as err:
        raise ValueError(f"fault {text.strip()!r}: {err}") from err
