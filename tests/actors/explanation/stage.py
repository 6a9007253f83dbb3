"""Stage of the trial: a simulated cluster with all kinds and admission plugins, in which objects get stuck."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from typing import Any

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.engine.elector import Election
from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.evidence import Evidence, ReadError
from kcm.actors.explanation.explain import explain
from kcm.actors.explanation.kinds import resource_named
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.admission_plugins import ON_BY_DEFAULT
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.objects import Key, Object
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, EVENTS, Resource
from kcm.runtime.apiserver.core.identifiers import SUFFIX_CHARACTERS, Identifiers
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.faults.vocabulary import Fault

NAMESPACE = "shop"


class StoreReader:
    """Reader of a simulated cluster: the objects as the server has them."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def get(self, resource: Resource, key: Key) -> Object | None:
        if self._cluster.network.server_is_down:
            raise ReadError("connection refused")
        return self._cluster.get(resource, key)

    def list(self, resource: Resource, namespace: str, *, labels: str, most: int) -> Sequence[Object]:
        del labels  # all objects are few
        try:
            return self._cluster.list(resource, namespace)[:most]
        except CommandError as err:
            raise ReadError(str(err)) from err

    def events(self, namespace: str, uid: str, *, most: int) -> Sequence[Object]:
        events = self._cluster.list(EVENTS, namespace or "default")
        return [event for event in events if (event.get("involvedObject") or {}).get("uid") == uid][:most]

    def find(self, group: str, kind: str) -> Resource | None:
        return resource_named(f"{kind}.{group}" if group else kind) or self._defined(group, kind.lower())

    def _defined(self, group: str, name: str) -> Resource | None:
        """Return the resource of a CustomResourceDefinition, as discovery does."""
        for definition in self._cluster.list(CUSTOM_RESOURCE_DEFINITIONS, ""):
            spec = definition["spec"]
            names = spec["names"]
            if group in ("", spec["group"]) and name in (names["plural"], names["kind"].lower()):
                return Resource(
                    group=spec["group"],
                    version=spec["versions"][0]["name"],
                    plural=names["plural"],
                    kind=names["kind"],
                    namespaced=spec["scope"] == "Namespaced",
                )
        return None


class Stage:
    """Simulated cluster with a manager, hollow nodes and a namespace.

    flags: of the manager.
    faults: injected faults.
    election: of the manager; None to work without a lease.
    cloud: provide a fake cloud, for managers with --cloud-provider=fake.
    kinds: further kinds that can be explained, by name.
    """

    def __init__(
        self,
        *flags: str,
        seed: int = 0,
        nodes: int = 3,
        manager: bool = True,
        faults: Sequence[Fault] = (),
        election: Election | None = None,
        cloud: bool = False,
        **hollow: Any,
    ) -> None:
        self.cluster = cluster = SimulatedCluster(seed=seed, faults=faults, cloud=FakeCloud() if cloud else None)
        self.kinds: dict[str, Resource] = {}
        ids = random.Random(seed)
        cluster.network.server = ApiServer(
            store=cluster.disk,
            clock=cluster.clock,
            settings=ApiSettings(plugins=ON_BY_DEFAULT, keep_ip_addresses=True),
            identifiers=Identifiers(
                uid=lambda: str(uuid.UUID(int=ids.getrandbits(128), version=4)),
                suffix=lambda: "".join(ids.choices(SUFFIX_CHARACTERS, k=5)),
            ),
            authorize=lambda access: cluster.authorize(access),
            call_webhook=cluster.webhooks.call,
        )
        self.system: ControllerSystem | None = None
        if manager:
            self.system = cluster.manager(options=read_options(list(flags)), election=election)
        self.hollow = cluster.hollow_nodes(nodes=nodes, **{"volumes": True, **hollow}) if nodes else None
        if self.system is not None and self.hollow is not None:
            self.system.neighbours.append(self.hollow.view)
        self.run(5.0)
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.run(5.0)

    def run(self, seconds: float) -> None:
        self.cluster.run_for(seconds)

    def apply(self, obj: Object) -> Object:
        """Create an object of any known kind, in the namespace of the stage by default."""
        group = obj["apiVersion"].rpartition("/")[0]
        resource = resource_named(f"{obj['kind']}.{group}" if group else obj["kind"])
        assert resource is not None, obj["kind"]
        metadata = {"namespace": NAMESPACE, **obj["metadata"]}
        if not resource.namespaced:
            del metadata["namespace"]
        obj = {**obj, "metadata": metadata}
        return self.cluster.create(resource, obj)

    def merge(self, kind: str, key: Key, changes: Object) -> Object:
        resource = resource_named(kind)
        assert resource is not None, kind
        return self.cluster.merge(resource, key, changes)

    def is_cluster_scoped(self, kind: str) -> bool:
        return not self._resource(kind).namespaced

    def _resource(self, kind: str) -> Resource:
        resource = self.kinds.get(kind) or resource_named(kind)
        assert resource is not None, kind
        return resource

    def why(self, kind: str, name: str, *, with_manager: bool = True) -> Explanation:
        resource = self._resource(kind)
        key = f"{NAMESPACE}/{name}" if resource.namespaced and "/" not in name else name
        return self.explain(resource, key, with_manager=with_manager)

    def explain(self, resource: Resource, key: Key, *, with_manager: bool = True) -> Explanation:
        view = self.system.view() if self.system is not None and with_manager else None
        return explain(resource, key, Evidence(StoreReader(self.cluster), now=self.cluster.clock.now(), manager=view))

    def close(self) -> None:
        self.cluster.world.close()

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
