"""A whole cluster in one thread, on virtual time: the embedded API server's core, and managers on it.

cluster = SimulatedCluster(log=log, seed=7)
cluster.manager()
cluster.create(REPLICASETS, {...})
cluster.run_for(10)
assert len(cluster.list(PODS, "default")) == 3
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from actors.catalogue import BUILT_IN
from actors.controller_manager import NAME
from actors.controller_system import ControllerSystem
from actors.elector import Election
from actors.hollow.catalogue import hollow_specs
from actors.options import Options
from actors.specs import ControllerSpec
from protocols.messages.lifecycle import Describe, Drain
from protocols.objects import Key, Object, decode_object, encode_object, namespace_of, split_key
from protocols.resources import Resource, resource_path
from runtime.api import Request, Response
from runtime.embedded.server import SUFFIX_CHARACTERS, ApiServer
from runtime.embedded.store import MemoryStore
from runtime.simulation.network import SimulatedTransport
from runtime.simulation.world import World

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

TICK = 1.0  # seconds between two looks of the server at what time has made due


class SimulatedCluster:
    """The server, the way to it, and whoever works on it. Requests of the test itself take no time."""

    def __init__(self, *, log: FilteringBoundLogger, seed: int = 0, latency: float = 0.001) -> None:
        self.world = World(log=log, seed=seed)
        self.clock = self.world.clock
        self._ids = random.Random(seed)
        self.server = ApiServer(
            store=MemoryStore(),
            clock=self.clock,
            uid=lambda: str(uuid.UUID(int=self._ids.getrandbits(128), version=4)),
            suffix=lambda: "".join(self._ids.choices(SUFFIX_CHARACTERS, k=5)),
        )
        self.transport = SimulatedTransport(self.server, clock=self.clock, random=random.Random(seed), latency=latency)
        self._seed, self._log = seed, log
        self._tick()

    def manager(
        self,
        *,
        controllers: Iterable[ControllerSpec] = BUILT_IN,
        options: Options | None = None,
        election: Election | None = None,
    ) -> ControllerSystem:
        """Start a manager; a second one of the same cluster needs an election, as in life."""
        return ControllerSystem(
            transport=self.transport,
            log=self._log,
            controllers=controllers,
            options=options,
            election=election,
            clock=self.clock,
            spawner=self.world,
            seed=self._seed,
        ).start()

    def hollow_nodes(self, *, nodes: int = 3, zones: int = 2) -> ControllerSystem:
        """Nodes that run pods, and a scheduler: a system of their own, as in life."""
        options = Options()
        return ControllerSystem(
            transport=self.transport,
            log=self._log,
            controllers=hollow_specs(nodes=nodes, zones=zones),
            options=replace(options, client_limits=replace(options.client_limits, qps=-1.0)),
            clock=self.clock,
            spawner=self.world,
            seed=self._seed + 1,
        ).start()

    def stop(self, system: ControllerSystem) -> bool:
        """Drain it and stop its actors; answers whether it was drained in time."""
        system.actors.tell(NAME, Drain())
        drained = self.run_until(lambda: system.end is not None, within=60.0)
        system.halt()
        return drained

    def describe(self, system: ControllerSystem, actor: str) -> Object:
        """What an actor of that system says of itself."""
        description = self.world.ask(system.actors, actor, Describe())
        facts: Object = orjson.loads(description.facts)
        return facts

    def run_for(self, seconds: float) -> None:
        self.world.run_for(seconds)

    def run_until(self, done: Callable[[], bool], *, within: float = 60.0) -> bool:
        return self.world.run_until(done, within=within)

    # The test's own hand on the server.

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> Response:
        return self.server.handle(
            Request(method=method, path=path, body=b"" if body is None else encode_object(body), **more)
        )

    def create(self, resource: Resource, obj: Mapping[str, Any]) -> Object:
        """Raises AssertionError with the server's answer if it refuses."""
        namespace = namespace_of(obj) or ("default" if resource.namespaced else "")
        return self._accepted(self.request("POST", resource_path(resource.id, namespace), obj))

    def get(self, resource: Resource, key: Key) -> Object | None:
        response = self.request("GET", resource_path(resource.id, *split_key(key)))
        return None if response.status == 404 else self._accepted(response)

    def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        items: list[Object] = self._accepted(self.request("GET", resource_path(resource.id, namespace)))["items"]
        return items

    def merge(self, resource: Resource, key: Key, changes: Mapping[str, Any], *, subresource: str = "") -> Object:
        """A merge patch."""
        path = resource_path(resource.id, *split_key(key), subresource)
        return self._accepted(self.request("PATCH", path, changes, content_type="application/merge-patch+json"))

    def delete(self, resource: Resource, key: Key, *, grace_seconds: int | None = None) -> None:
        body = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        self._accepted(self.request("DELETE", resource_path(resource.id, *split_key(key)), body))

    @staticmethod
    def _accepted(response: Response) -> Object:
        if not 200 <= response.status < 300:
            raise AssertionError(f"the server answered {response.status}: {response.body.decode()}")
        return decode_object(response.body)

    def _tick(self) -> None:
        self.server.tick(self.clock.now())
        self.clock.call_after(TICK, self._tick)
