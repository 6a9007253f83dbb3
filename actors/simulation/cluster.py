"""Simulated cluster in one thread, on virtual time: the embedded API server, controller managers and hollow nodes.

cluster = SimulatedCluster(log=log, seed=7)
cluster.manager()
cluster.create(REPLICASETS, {...})
cluster.run_for(10)
assert len(cluster.list(PODS, "default")) == 3
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.apimachinery import garbage_collector, namespace
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.elector import Election
from kcm.actors.engine.webhooks.configurations import has_webhooks
from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.hollow.nodes.reconciler import LEASE_INTERVAL
from kcm.actors.hollow.specs import hollow_specs
from kcm.actors.options import Options
from kcm.actors.reconciliation.actor_names import MANAGER
from kcm.actors.reconciliation.commands import check_key, check_resource
from kcm.actors.reconciliation.specs import ControllerSpec, checked_specs, runs
from kcm.actors.simulation.fault_schedule import FaultSchedule
from kcm.actors.simulation.permissions import PermissionCheck
from kcm.actors.simulation.processes import Observer, Processes, Running
from kcm.actors.simulation.servers import SimulatedServer, accepted
from kcm.protocols.arguments import check_each, check_function, check_mapping, check_number, check_type
from kcm.protocols.messages.commands import Command, Create, Delete, Get, List, Patch, PatchType
from kcm.protocols.messages.lifecycle import Describe, Drain
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.models import as_object
from kcm.protocols.objects import Key, Object, decode_object, encode_object, namespace_of
from kcm.protocols.pods import PodFacts, pod_facts
from kcm.protocols.resources import PODS, M, Resource, check_cluster, split_cluster, split_path
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.users import Authorize, allow_all
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.client.api import Request, Response
from kcm.runtime.cloud.provider import CloudProvider
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import Fault
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.simulation.calls import SimulatedCalls
from kcm.runtime.simulation.disk import SimulatedDisk
from kcm.runtime.simulation.network import SimulatedNetwork
from kcm.runtime.simulation.trace import Trace
from kcm.runtime.simulation.transport import SimulatedTransport
from kcm.runtime.simulation.webhooks import URL as WEBHOOKS_URL
from kcm.runtime.simulation.webhooks import SimulatedWebhooks
from kcm.runtime.simulation.world import World
from kcm.runtime.x509.key_rings import CertificateLives

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


NEVER = 1e9  # seconds: longer than any run
TICK = 1.0  # seconds between two ticks of the server
DECODED = 4096  # decoded versions of objects to keep


class SimulatedCluster:
    """Simulated API server, network and client processes. Requests of the test itself take no time.

    With `clusters`, it has one API server for each, and every resource names its cluster, `CONFIGMAPS.on("edge")`:
    those of the controllers, and those that are passed to `create`, `get`, `list` and the other methods.

    log: as for ControllerSystem.
    faults: injected faults, see runtime/faults/vocabulary.py.
    traced: record every event of the simulation in `trace`.
    cloud: cloud provider of managers with --cloud-provider. External calls take `self.calls.latency` virtual seconds.
    collect_garbage: the server itself deletes dependents of deleted owners, until a manager runs a garbage collector.
    empty_namespaces: the server itself empties namespaces, until a manager runs a namespace controller.
    authorize: function that decides access reviews; may be replaced.
    webhooks: servers of the webhooks of all managers, which the API server calls without HTTP.
    certificate_lives: lifetimes of the webhooks' certificates, for managers that are started later.
    outside: fake of external systems, which the setting of a run creates; see Setting.outside.
    clusters: names of the clusters; () for one cluster, without a name.
    servers: API server of each cluster by name.
    """

    def __init__(
        self,
        *,
        log: FilteringBoundLogger | None = None,
        seed: int = 0,
        latency: float = 0.001,
        faults: Sequence[Fault] = (),
        traced: bool = False,
        cloud: CloudProvider | None = None,
        collect_garbage: bool = True,
        empty_namespaces: bool = True,
        clusters: Sequence[str] = (),
    ) -> None:
        check_each("clusters of a SimulatedCluster", tuple(clusters), lambda _, name: check_cluster(name))
        log = log if log is not None else standard_log("kcm")
        self.world = World(log=log, seed=seed)
        self.clock = self.world.clock
        self.trace = Trace() if traced else None
        self.clusters, ids = tuple(clusters), random.Random(seed)
        self.servers = {
            name: SimulatedServer(
                name,
                clock=self.clock,
                ids=ids,
                seed=seed,
                latency=latency,
                collect_garbage=collect_garbage,
                empty_namespaces=empty_namespaces,
                authorize=lambda access: self.authorize(access),
                call_webhook=lambda question: self.webhooks.call(question),
            )
            for name in self.clusters or ("",)
        }
        self._first = next(iter(self.servers.values()))
        self.networks = [server.network for server in self.servers.values()]
        self.transport = SimulatedTransport(self.network, "outside")
        self.cloud, self.calls = cloud, SimulatedCalls(clock=self.clock)
        self.webhooks = SimulatedWebhooks(self.clock)
        for network in self.networks:
            network.call_webhook, network.webhook_delay = self.webhooks.call, self.webhooks.delay
        self.certificate_lives = CertificateLives()
        self.outside: Any = None
        self.authorize: Authorize = allow_all
        self._processes = Processes(
            world=self.world,
            networks={name: server.network for name, server in self.servers.items()},
            calls=self.calls,
            webhooks=self.webhooks,
            cloud=cloud,
            trace=self.trace,
            log=log,
        )
        self.permissions = PermissionCheck(self._processes)
        self._seed = seed
        self._decoded = lru_cache(maxsize=DECODED)(decode_object)
        self._facts = lru_cache(maxsize=DECODED)(lambda raw: pod_facts(self._decoded(raw)))
        self.world.trace = self.trace
        self.injector = Injector(faults, seed=seed, clock=self.clock)
        for network in self.networks:
            network.witnesses.append(self.permissions.on(network.cluster))
            network.trace = self.trace
            network.injector = self.injector if faults else None
        if faults:
            self.world.injector = self.calls.injector = self.webhooks.injector = self.injector
            FaultSchedule(self.injector, processes=self._processes, servers=self.servers).start_timers()
        self._tick()

    @property
    def server(self) -> ApiServer:
        """Return the server that handles requests now, of several clusters the first.

        `restart_server` replaces it.
        """
        return self._first.api

    @property
    def network(self) -> SimulatedNetwork:
        """Return the network of the (first) server."""
        return self._first.network

    @property
    def disk(self) -> SimulatedDisk:
        """Return the disk of the (first) server."""
        return self._first.disk

    @property
    def processes(self) -> Mapping[str, Running]:
        """The latest incarnation of each process by name, also of processes that crashed or ended."""
        return self._processes.running

    @property
    def started(self) -> list[Observer]:
        """Functions that are called with each process before it starts."""
        return self._processes.started

    def manager(
        self,
        *,
        controllers: Iterable[ControllerSpec] = BUILT_IN,
        options: Options | None = None,
        election: Election | Mapping[str, Election] | None = None,
        keep: bool = False,
        cluster: str = "",
    ) -> ControllerSystem:
        """Start a controller manager. Several managers of one cluster need leader election, as in a real cluster.

        Once a manager with the garbage collector or the namespace controller is started, the server itself no longer
        deletes dependents, or the content of namespaces. The first process is named "manager", the next one
        "manager-2".

        election: settings of the leader election, with several clusters by their names; None to write without a lease.
        cluster: one of several, for controllers that name none; the process is then named "edge-manager".
        keep: restart the process when it ends by itself, for example after a lost lease, as a kubelet would;
            `processes` then contains the new incarnation.
        """
        own = self._server_of(cluster) if cluster else self._first
        specs = checked_specs("controllers", controllers)
        if options is not None:
            check_type("options", options, Options, "Options, as read_options() returns them")
        if runs(garbage_collector.SPEC.name, specs, options or Options()):
            own.stop_garbage_collection()
        if runs(namespace.SPEC.name, specs, options or Options()):
            own.stop_namespace_cleanup()
        if has_webhooks(specs):
            own.serve_configurations()
        return self._processes.start(
            "manager",
            specs,
            options=options,
            election=election,
            seed=self._seed,
            keep=keep,
            webhooks=WebhookServing(
                name="simulated", namespace="kube-system", url=WEBHOOKS_URL, lives=self.certificate_lives
            ),
            cluster=cluster,
        )

    def hollow_nodes(
        self,
        *,
        nodes: int = 3,
        zones: int = 2,
        heartbeats: bool = True,
        volumes: bool = False,
        attach: bool = False,
        devices: bool = False,
        cluster: str = "",
    ) -> ControllerSystem:
        """Start a process with hollow nodes, whose pods run in appearance only, and with a scheduler.

        heartbeats: renew the Leases and statuses repeatedly; otherwise write them once.
        volumes: provision volumes for claims, and let pods wait for their claims.
        attach: let pods also wait until an attach-detach controller has attached their volumes.
        devices: publish devices of nodes, and allocate them to ResourceClaims of pods. The kinds must be served.
        cluster: where the nodes are, in a world with several clusters.
        """
        self._server_of(cluster)
        options = Options()
        options = replace(options, client_limits=replace(options.client_limits, qps=-1.0))
        heartbeat = LEASE_INTERVAL if heartbeats else NEVER
        specs = hollow_specs(
            nodes=nodes, zones=zones, heartbeat=heartbeat, volumes=volumes, attach=attach, devices=devices
        )
        return self._processes.start("hollow", specs, options=options, seed=self._seed + 1, cluster=cluster)

    def crash(self, name: str) -> None:
        """Kill a process with all its actors. `start_again` restarts it."""
        self._processes.crash(name)

    def start_again(self, name: str) -> None:
        """Restart a process, without any state of the previous incarnation."""
        self._processes.start_again(name)

    def serve(self, *definitions: ResourceDefinition) -> None:
        """Serve additional kinds from now on, on every cluster."""
        for server in self.servers.values():
            server.serve(*definitions)

    def restart_server(self, cluster: str = "") -> None:
        """Restart the API server on the same disk: it has all objects, but no history of changes for watches."""
        self._server_of(cluster).restart()

    def note(self, process: str, text: str) -> None:
        """Add a text to the trace of the simulation, if there is one. process: name of a process, or ""."""
        self._processes.note(process, text)

    def stop(self, system: ControllerSystem) -> bool:
        """Stop a manager after its work in progress. Returns whether this work ended within 60 virtual seconds."""
        system.actors.tell(MANAGER, Drain())
        drained = self.run_until(lambda: system.end is not None, within=60.0)
        system.halt()
        return drained

    def describe(self, system: ControllerSystem, actor: str) -> Object:
        """Return the reply of an actor to the message Describe, as decoded JSON. actor: its name."""
        description = self.world.ask(system.actors, actor, Describe())
        facts: Object = orjson.loads(description.facts)
        return facts

    def run_for(self, seconds: float) -> None:
        """Advance the virtual time.

        Raises MissingPermissionError if a controller has sent a request without one of its declared permissions.
        """
        check_number("run_for", seconds, least=0)
        self.world.run_for(seconds)
        self.permissions.raise_if_missing()

    def run_until(self, done: Callable[[], bool], *, within: float = 60.0) -> bool:
        """Advance the virtual time until a condition is met, and return whether it is. within: at most these seconds.

        Raises MissingPermissionError if a controller has sent a request without one of its declared permissions.
        """
        check_function("done of run_until", done)
        check_number("within of run_until", within, least=0)
        is_done = self.world.run_until(done, within=within)
        self.permissions.raise_if_missing()
        return is_done

    # Direct access of the test to the server.

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None, **more: Any) -> Response:
        """Send a request. With several clusters, its path begins with the cluster: /clusters/edge/api/v1/pods."""
        content = b"" if body is None else encode_object(body)
        return self._server_of(split_path(path)[0]).request(Request(method=method, path=path, body=content, **more))

    # Refused requests raise CommandError, whose `failure` is the outcome: Invalid, Conflict, NotFound, …

    def create(self, resource: Resource[M], given: Mapping[str, Any] | M) -> Object:
        """Create an object. apiVersion, kind and the namespace ("default") can be omitted."""
        check_resource(resource)
        obj = as_object(given)
        namespace = namespace_of(obj) or ("default" if resource.namespaced else "")
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return self._do(Create(resource.id, namespace, encode_object(whole)))

    def get(self, resource: Resource, key: Key) -> Object | None:
        key = check_key(resource, key)
        command = Get(resource.id, key)
        outcome = self._server_of(resource.cluster).outcome_of(command)
        return None if isinstance(outcome, NotFound) else accepted(command, outcome)

    def list(self, resource: Resource, namespace: str = "") -> list[Object]:
        check_resource(resource)
        items: list[Object] = self._do(List(resource.id, namespace))["items"]
        return items

    def shown(self, resource: Resource, namespace: str = "") -> Sequence[Object]:
        """Return the objects as `list` does, but cached, for checks that read them often. Do not modify them.

        The result is cached until the server's state or the time changes. Unchanged objects are decoded once.
        """
        return [self._decoded(raw) for raw in self._shown_now(resource, namespace)]

    def shown_pods(self, namespace: str = "") -> Sequence[tuple[Object, PodFacts]]:
        """Return (pod, its PodFacts) for each pod, cached as by `shown`."""
        return [(self._decoded(raw), self._facts(raw)) for raw in self._shown_now(PODS, namespace)]

    def _shown_now(self, resource: Resource, namespace: str) -> Sequence[bytes]:
        return self._server_of(resource.cluster).shown(resource, namespace, steps=self.world.steps)

    def merge(self, resource: Resource, key: Key, changes: Mapping[str, Any], *, subresource: str = "") -> Object:
        """Apply a merge patch, and return the new object."""
        key = check_key(resource, key)
        check_mapping("changes of merge", changes)
        return self._do(Patch(resource.id, key, encode_object(changes), PatchType.MERGE, subresource))

    def delete(self, resource: Resource, key: Key, *, grace_seconds: int | None = None, policy: str = "") -> None:
        """Delete an object. policy: Foreground, Background or Orphan; "" is the server's default."""
        key = check_key(resource, key)
        self._do(Delete(resource.id, key, grace_seconds=grace_seconds, propagation=policy or None))

    def _do(self, command: Command) -> Object:
        return self._server_of(split_cluster(command.resource)[0]).do(command)

    def _server_of(self, cluster: str) -> SimulatedServer:
        """Return the server of a cluster. Raises ValueError for an unknown cluster, or none of several."""
        server = self.servers.get(cluster)
        if server is None:
            known = ", ".join(self.clusters) or "only one, without a name"
            raise ValueError(f"there is no cluster {cluster!r}: name one by RESOURCE.on(cluster); there is {known}")
        return server

    def _tick(self) -> None:
        for server in self.servers.values():
            server.tick()
        self._processes.revive()
        self.clock.call_after(TICK, self._tick)
