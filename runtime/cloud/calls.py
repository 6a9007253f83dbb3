"""How calls into a cloud are made: on threads of their own, so that a slow cloud stalls nothing else.

A reconciler does no I/O: it yields a CloudCall as it yields any command, and the Dispatcher hands it on to here once
its sender may act at all (the lease is held, no newer incarnation has replaced it). The outcome goes straight to the
sender's mailbox. Only the key that made the call waits meanwhile. In the simulator the same calls take virtual time
(runtime/simulation/cloud.py).
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import orjson

from protocols.messages.cloud import (
    NOT_SUPPORTED,
    CloudCall,
    CreateRoute,
    DeleteLoadBalancer,
    DeleteRoute,
    EnsureLoadBalancer,
    GetLoadBalancer,
    InstanceExists,
    InstanceIsShutDown,
    ListRoutes,
    UpdateLoadBalancer,
)
from protocols.messages.outcomes import (
    Conflict,
    Done,
    Invalid,
    NotFound,
    Outcome,
    Refused,
    ServerFailure,
    Throttled,
    Unknown,
)
from protocols.objects import decode_object
from protocols.routes import decode_route, encode_routes
from runtime.cloud.provider import (
    CloudConflictError,
    CloudProvider,
    InstanceNotFoundError,
    Instances,
    LoadBalancers,
    NotSupportedError,
    RetryAfterError,
    Routes,
)
from runtime.scheduling.clock import Clock

OnOutcome = Callable[[Outcome], None]
THREADS = 16
TIMEOUT = 120.0  # seconds; a load balancer may take a minute to make


class CloudCalls(Protocol):
    """The way to a cloud."""

    def send(self, call: CloudCall, on_outcome: OnOutcome) -> None:
        """Returns at once; on_outcome is called exactly once, on whatever thread, and must not block."""


def carry_out(provider: CloudProvider, call: CloudCall) -> Outcome:
    """Make the call, here and now. Never raises an Exception."""
    try:
        return Done(_answer(provider, call))
    except InstanceNotFoundError as err:
        return NotFound(str(err) or "instance not found")
    except NotSupportedError as err:
        return Invalid(str(err) or "unimplemented", code=NOT_SUPPORTED)
    except CloudConflictError as err:
        return Conflict(str(err))
    except RetryAfterError as err:
        return Throttled(str(err), retry_after=err.seconds)
    except Exception as err:  # the provider's own: it is a value to us
        return ServerFailure(str(err) or type(err).__name__)


def _answer(provider: CloudProvider, call: CloudCall) -> bytes:
    match call:
        case InstanceExists(node=node):
            return orjson.dumps(_instances(provider).exists(decode_object(node)))
        case InstanceIsShutDown(node=node):
            return orjson.dumps(_instances(provider).is_shut_down(decode_object(node)))
        case ListRoutes(cluster=cluster):
            return encode_routes(_routes(provider).list(cluster))
        case CreateRoute(cluster=cluster, hint=hint, route=route):
            _routes(provider).create(cluster, hint, decode_route(route))
        case DeleteRoute(cluster=cluster, route=route):
            _routes(provider).delete(cluster, decode_route(route))
        case GetLoadBalancer(cluster=cluster, service=service):
            return orjson.dumps(_balancers(provider).get(cluster, decode_object(service)))
        case EnsureLoadBalancer(cluster=cluster, service=service, nodes=nodes):
            return orjson.dumps(_balancers(provider).ensure(cluster, decode_object(service), orjson.loads(nodes)))
        case UpdateLoadBalancer(cluster=cluster, service=service, nodes=nodes):
            _balancers(provider).update(cluster, decode_object(service), orjson.loads(nodes))
        case DeleteLoadBalancer(cluster=cluster, service=service):
            _balancers(provider).delete(cluster, decode_object(service))
    return b"null"


def _instances(provider: CloudProvider) -> Instances:
    if provider.instances is None:
        raise NotSupportedError("cloud provider does not support instances")
    return provider.instances


def _routes(provider: CloudProvider) -> Routes:
    if provider.routes is None:
        raise NotSupportedError("cloud provider does not support routes")
    return provider.routes


def _balancers(provider: CloudProvider) -> LoadBalancers:
    if provider.load_balancers is None:
        raise NotSupportedError("the cloud provider does not support external load balancers")
    return provider.load_balancers


@dataclass(slots=True)
class _Given:
    """A call that has no outcome yet. begun: a thread is at it."""

    call: CloudCall
    on_outcome: OnOutcome
    begun: bool = False


class ThreadedCalls:
    """A few daemon threads that make calls in the order in which they came; started as they are needed.

    timeout: seconds from when a call was handed in. One that hangs in the cloud keeps its thread, but its sender
    receives Unknown; those that get no thread in time are not made, and their outcome is Refused.
    """

    def __init__(
        self, provider: CloudProvider, *, clock: Clock, threads: int = THREADS, timeout: float = TIMEOUT
    ) -> None:
        self._provider, self._clock = provider, clock
        self._most, self._timeout = threads, timeout
        self._lock = threading.Lock()  # around all below, but for the queue
        self._numbers = itertools.count()
        self._given: dict[int, _Given] = {}
        self._threads: list[threading.Thread] = []
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()

    def send(self, call: CloudCall, on_outcome: OnOutcome) -> None:
        with self._lock:
            number = next(self._numbers)
            self._given[number] = _Given(call, on_outcome)
            if len(self._threads) < min(self._most, len(self._given)):
                name = f"cloud-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                self._threads[-1].start()
        self._clock.call_at((self, number), self._clock.monotonic() + self._timeout, lambda: self._give_up(number))
        self._waiting.put(number)

    def _work(self) -> None:
        while True:
            number = self._waiting.get()
            with self._lock:
                given = self._given.get(number)
                if given is None:
                    continue
                given.begun = True
            outcome = carry_out(self._provider, given.call)
            self._clock.cancel((self, number))
            self._settle(number, outcome)

    def _give_up(self, number: int) -> None:
        with self._lock:
            given = self._given.pop(number, None)
        if given is not None and given.begun:
            given.on_outcome(Unknown(f"the cloud did not respond within {self._timeout:.0f} s"))
        elif given is not None:
            given.on_outcome(Refused(f"the cloud was busy for {self._timeout:.0f} s"))

    def _settle(self, number: int, outcome: Outcome) -> None:
        with self._lock:
            given = self._given.pop(number, None)
        if given is not None:
            given.on_outcome(outcome)
