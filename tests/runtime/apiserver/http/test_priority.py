"""Order of requests by priority, on a clock that only requests advance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kcm.runtime.apiserver.http.priority import OTHERS_EVERY, SLICE, PriorityLevel, PriorityQueues, level_of
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import MASTERS, NODES, User
from tests.runtime.apiserver.http.served import PODS as POSTED
from tests.runtime.apiserver.http.served import TOKEN, Served, posted_pod, run, until

LONG, SHORT = SLICE, SLICE / 4


class Loop:
    """Handles requests, which are pairs of name and duration in seconds."""

    def __init__(self) -> None:
        self.time = 0.0
        self.done: list[str] = []
        self.soon: list[Callable[[], None]] = []
        self.turns = PriorityQueues[tuple[str, float]](self.handle, now=lambda: self.time, soon=self.soon.append)

    def handle(self, request: tuple[str, float]) -> None:
        self.done.append(request[0])
        self.time += request[1]

    def take(self, name: str, level: PriorityLevel = PriorityLevel.OTHERS, seconds: float = LONG) -> None:
        self.turns.take((name, seconds), level)

    def turn(self) -> None:
        due, self.soon[:] = self.soon[:], []
        for callback in due:
            callback()


def test_request_is_handled_immediately_when_the_queues_are_empty() -> None:
    loop = Loop()
    for name in "abc":
        loop.take(name, seconds=SHORT)
    assert loop.done == ["a", "b", "c"]
    loop.turn()
    assert (loop.soon, len(loop.turns)) == ([], 0)


def test_turn_handles_requests_for_one_slice() -> None:
    loop = Loop()
    for name in "abc":
        loop.take(name)
    assert (loop.done, len(loop.turns)) == (["a"], 2)
    loop.turn()
    assert loop.done == ["a", "b"]
    loop.take("d", seconds=SHORT)
    loop.turn()
    loop.turn()
    assert loop.done == ["a", "b", "c", "d"]


def test_heartbeat_is_handled_before_queued_requests() -> None:
    loop = Loop()
    for i in range(100):
        loop.take(f"list {i}")
    loop.take("lease", PriorityLevel.AT_ONCE, 0)
    assert loop.done == ["list 0", "lease"]


def test_control_plane_precedes_others_without_starving_them() -> None:
    loop = Loop()
    for i in range(3):
        loop.take(f"list {i}")
    for i in range(20):
        loop.take(f"pod {i}", PriorityLevel.CONTROL_PLANE)
    for _ in range(30):
        loop.turn()
    assert len(loop.done) == 23
    assert loop.done[1:OTHERS_EVERY] == [f"pod {i}" for i in range(OTHERS_EVERY - 1)]
    assert loop.done[OTHERS_EVERY] == "list 1"


LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"
STATUS = "/api/v1/nodes/n/status"
PODS = "/api/v1/namespaces/default/pods"
MANAGER = User("system:kube-controller-manager")
CONTROLLER = User("system:serviceaccount:kube-system:replicaset-controller")
NODE = User("system:node:n", groups=(NODES,))
ADMIN = User("admin", groups=(MASTERS,))
SOMEBODY = User("somebody")


@pytest.mark.parametrize(
    ("user", "method", "path", "level"),
    [
        (MANAGER, "PUT", LEASE, PriorityLevel.AT_ONCE),
        (NODE, "PATCH", LEASE, PriorityLevel.AT_ONCE),
        (NODE, "PATCH", STATUS, PriorityLevel.AT_ONCE),
        (ADMIN, "PUT", LEASE, PriorityLevel.AT_ONCE),
        (SOMEBODY, "PUT", LEASE, PriorityLevel.OTHERS),
        (SOMEBODY, "PATCH", STATUS, PriorityLevel.OTHERS),
        (ADMIN, "DELETE", LEASE, PriorityLevel.OTHERS),
        (MANAGER, "POST", PODS, PriorityLevel.CONTROL_PLANE),
        (CONTROLLER, "POST", PODS, PriorityLevel.CONTROL_PLANE),
        (NODE, "GET", PODS, PriorityLevel.CONTROL_PLANE),
        (NODE, "GET", "/api/v1/nodes/n", PriorityLevel.CONTROL_PLANE),
        (ADMIN, "GET", PODS, PriorityLevel.OTHERS),
        (None, "GET", PODS, PriorityLevel.OTHERS),
    ],
)
def test_level_depends_on_user_and_request(user: User | None, method: str, path: str, level: PriorityLevel) -> None:
    assert level_of(user, RequestInfo.of(method, path, {})) is level


def test_probe_is_handled_immediately() -> None:
    assert level_of(None, RequestInfo.of("GET", "/livez", {}), is_probe=True) is PriorityLevel.AT_ONCE


def test_request_of_a_disconnected_client_is_not_handled() -> None:
    async def scenario(served: Served) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
        head = f"POST {POSTED} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: "
        body = orjson.dumps(posted_pod("web"))
        waiting: list[Any] = []
        await served.get("/version")
        turns = served.front._queues
        assert turns is not None
        turns.take = lambda request, _level: waiting.append(request)  # type: ignore[method-assign]
        writer.write(f"{head}{len(body)}\r\n\r\n".encode() + body)
        await until(lambda: bool(waiting))
        writer.close()
        await until(lambda: not waiting[0].is_awaited)
        served.front._handle(waiting[0])
        del turns.take  # type: ignore[method-assign]
        assert (await served.get(f"{POSTED}/web")).status == 404

    run(scenario)
