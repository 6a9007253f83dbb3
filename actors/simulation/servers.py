"""Simulated API server of a cluster: its disk, its network, and direct requests of the test itself."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence

from msgspec.structs import replace

from kcm.actors.engine.dispatcher.requests import outcome_of, request_for
from kcm.actors.engine.webhooks.configurations import MUTATING_CONFIGURATIONS, VALIDATING_CONFIGURATIONS
from kcm.actors.simulation.served import SERVED
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, List
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import Resource, resource_path, split_path
from kcm.runtime.apiserver.core.identifiers import SUFFIX_CHARACTERS, Identifiers
from kcm.runtime.apiserver.core.questions import CallWebhook
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN as EVERY_KIND
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.users import Authorize
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.verbs.read import ListResponse
from kcm.runtime.client.api import Request, Response
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.simulation.disk import SimulatedDisk
from kcm.runtime.simulation.network import SimulatedNetwork


class SimulatedServer:
    """API server of a simulated cluster. `restart` replaces it by one with the same disk.

    Requests of the test itself take no time.

    name: of the cluster, if the world has several; "" otherwise.
    ids: random numbers for uids and generated names, shared by all clusters.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: VirtualClock,
        ids: random.Random,
        seed: int,
        latency: float,
        collect_garbage: bool,
        empty_namespaces: bool,
        authorize: Authorize,
        call_webhook: CallWebhook,
    ) -> None:
        self.name, self.disk = name, SimulatedDisk()
        self._clock, self._ids = clock, ids
        self._authorize, self._call_webhook = authorize, call_webhook
        self._collect_garbage, self._empty_namespaces = collect_garbage, empty_namespaces
        self._served = SERVED
        chance = random.Random(f"{seed} {name}" if name else seed)
        self.network = SimulatedNetwork(self._new_server(), clock=clock, random=chance, latency=latency, cluster=name)
        self._shown_at: tuple[int, float, int] | None = None
        self._shown: dict[tuple[str, str], Sequence[bytes]] = {}

    @property
    def api(self) -> ApiServer:
        """Return the server that handles requests now."""
        return self.network.server

    def tick(self) -> None:
        if not self.network.server_is_down:
            self.api.tick(self._clock.now())
        self.network.record_revision()

    def restart(self) -> None:
        """Restart the server on the same disk: it has all objects, but no history of changes for watches."""
        self.network.server = self._new_server()
        self.network.break_streams()

    def serve(self, *definitions: ResourceDefinition) -> None:
        """Serve additional kinds from now on."""
        self._served += definitions
        for definition in definitions:
            self.api.registry.add(definition)

    def serve_configurations(self) -> None:
        """Serve the kinds that configure webhooks."""
        wanted = {MUTATING_CONFIGURATIONS.name, VALIDATING_CONFIGURATIONS.name}
        served = {f"{kind.plural}.{kind.group}" for kind in self._served}
        self.serve(*(kind for kind in EVERY_KIND if f"{kind.plural}.{kind.group}" in wanted - served))

    def stop_garbage_collection(self) -> None:
        if self._collect_garbage:
            self._collect_garbage = False
            self.api.stop_garbage_collection()

    def stop_namespace_cleanup(self) -> None:
        if self._empty_namespaces:
            self._empty_namespaces = False
            self.api.stop_namespace_cleanup()

    def request(self, request: Request) -> Response:
        """Handle a request. Its path may begin with the cluster."""
        return self.api.handle(replace(request, path=split_path(request.path)[1]) if self.name else request)

    def do(self, command: Command) -> Object:
        """Carry out a command, and return the object or list. Raises CommandError if it is refused."""
        return accepted(command, self.outcome_of(command))

    def outcome_of(self, command: Command) -> Outcome:
        return outcome_of(self.request(request_for(command)), command)

    def shown(self, resource: Resource, namespace: str, *, steps: int) -> Sequence[bytes]:
        """Return the objects, cached until the server's state or the time changes.

        steps: number of messages that actors have handled.
        """
        now = (steps, self._clock.monotonic(), self.api.revision)
        if self._shown_at != now:
            self._shown_at, self._shown = now, {}
        found = self._shown.get((resource.id, namespace))
        if found is None:
            path = split_path(resource_path(resource.id, namespace))[1]
            response = self.api.handle(Request(method="GET", path=path))
            if not isinstance(response, ListResponse):
                command = List(resource.id, namespace)
                accepted(command, outcome_of(response, command))
                raise AssertionError(f"GET {path} returned no list")
            found = self._shown[resource.id, namespace] = response.items
        return found

    def _new_server(self) -> ApiServer:
        return ApiServer(
            store=self.disk,
            clock=self._clock,
            settings=ApiSettings(
                resources=self._served,
                collect_garbage=self._collect_garbage,
                empty_namespaces=self._empty_namespaces,
                keep_ip_addresses=True,
                record_managers=False,  # no test reads managedFields, which would enlarge objects by half
            ),
            identifiers=Identifiers(
                uid=lambda: str(uuid.UUID(int=self._ids.getrandbits(128), version=4)),
                suffix=lambda: "".join(self._ids.choices(SUFFIX_CHARACTERS, k=5)),
            ),
            authorize=self._authorize,
            call_webhook=self._call_webhook,
        )


def accepted(command: Command, outcome: Outcome) -> Object:
    """Return the object or list of the outcome. Raises CommandError for a refusal."""
    if not isinstance(outcome, Done):
        raise CommandError(command, outcome)
    return decode_object(outcome.body)
