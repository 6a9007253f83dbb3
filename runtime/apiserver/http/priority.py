"""Priority queues of requests, which determine the order of execution under load.

One thread executes all requests. In each iteration of the event loop, it executes queued requests in the order of
their priority for at most SLICE seconds; then the loop reads the requests that have arrived. A heartbeat therefore
waits for at most one slice and the current request, regardless of the number of queued requests.

Source of the levels: apiserver pkg/apis/flowcontrol/bootstrap/default.go (exempt, node-high, leader-election, system,
workload-high; v1.36). Difference: no request is rejected with 429, because the number of connections is limited, and
there is no shuffle sharding: all other requests share one queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import IntEnum
from typing import Generic, TypeVar

from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import ACCOUNTS, MASTERS, NODES, User

SLICE = 0.005  # seconds
OTHERS_EVERY = 8  # every eighth request is taken from the queue OTHERS, which would starve otherwise

_NODE_STATUS, _LEASES = ("", "v1", "nodes", "status"), ("coordination.k8s.io", "v1", "leases", "")
_CONTROL_PLANE = frozenset(f"system:{name}" for name in ("kube-controller-manager", "kube-scheduler", "hollow-nodes"))
_CONTROLLERS = f"{ACCOUNTS}kube-system:"  # with --use-service-account-credentials

R = TypeVar("R")


class PriorityLevel(IntEnum):
    """Priority level of a request; a lower number is executed first."""

    AT_ONCE = 0  # leases, node status and health probes: never queued
    CONTROL_PLANE = 1  # other requests of control plane components and nodes
    OTHERS = 2


def level_of(user: User | None, info: RequestInfo, *, is_probe: bool = False) -> PriorityLevel:
    """Return the priority level of a request.

    user: None if the request is not authenticated
    is_probe: whether the path is that of a health endpoint
    """
    if is_probe:
        return PriorityLevel.AT_ONCE
    if user is None:
        return PriorityLevel.OTHERS
    of_control_plane = user.name in _CONTROL_PLANE or user.name.startswith(_CONTROLLERS) or NODES in user.groups
    if (of_control_plane or MASTERS in user.groups) and _is_heartbeat(info):
        return PriorityLevel.AT_ONCE
    return PriorityLevel.CONTROL_PLANE if of_control_plane else PriorityLevel.OTHERS


def _is_heartbeat(info: RequestInfo) -> bool:
    """Report whether a request reads or writes the leases of a namespace, or the status of nodes. No deletion does."""
    kind = info[1:5]
    return (kind == _NODE_STATUS or (kind == _LEASES and bool(info.namespace))) and not info.verb.startswith("delete")


class PriorityQueues(Generic[R]):
    """Queues of requests by priority level. Not thread-safe."""

    def __init__(
        self, handle: Callable[[R], None], *, now: Callable[[], float], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        """Create empty queues.

        handle: executes a request; must not raise
        now: returns the time of a monotonic clock, in seconds
        soon: schedules a call in the next iteration of the event loop, after it has read from the connections
        """
        self._handle, self._now, self._soon = handle, now, soon
        self._control_plane: deque[R] = deque()
        self._others: deque[R] = deque()
        self._time_left = SLICE  # remaining seconds of this iteration
        self._is_due = False
        self._taken = 0

    def __len__(self) -> int:
        """Return the number of queued requests."""
        return len(self._control_plane) + len(self._others)

    def take(self, request: R, level: PriorityLevel) -> None:
        """Execute a request at once if its level and the remaining time allow it; otherwise add it to a queue."""
        if level is PriorityLevel.AT_ONCE:
            self._handle(request)
        elif (
            self._time_left > 0
            and not self._control_plane
            and (level is PriorityLevel.CONTROL_PLANE or not self._others)
        ):
            self._run(request)
        else:
            (self._control_plane if level is PriorityLevel.CONTROL_PLANE else self._others).append(request)
        if not self._is_due and (self._time_left < SLICE or len(self)):
            self._is_due = True
            self._soon(self._run_iteration)

    def _run(self, request: R) -> None:
        began = self._now()
        self._handle(request)
        self._time_left -= self._now() - began

    def _run_iteration(self) -> None:
        self._is_due, self._time_left = False, SLICE
        while self._time_left > 0 and (waiting := self._next()):
            self._run(waiting.popleft())
        if len(self):
            self._is_due = True
            self._soon(self._run_iteration)

    def _next(self) -> deque[R]:
        self._taken += 1
        if self._control_plane and not (self._others and self._taken % OTHERS_EVERY == 0):
            return self._control_plane
        return self._others
