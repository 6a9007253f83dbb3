"""A DeploymentReconciler with the core of the embedded API server, without HTTP and threads, on a virtual clock.

The watches are late until the test calls `observe()`. The test also takes the parts of the ReplicaSet controller
(`run_replica_sets()`) and of kubelets (`make_ready()`).
"""

import itertools
from collections.abc import Callable

from kcm.actors.controllers.workloads.deployment.reconciler import DeploymentReconciler
from kcm.actors.engine.dispatcher.requests import outcome_of, request_for
from kcm.actors.simulation.driver import Driven, StillClock, drive
from kcm.protocols.messages.commands import Command, Create, Delete, Update
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object, controller_of, decode_object, encode_object, key_of, name_of, owner_reference
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, Resource, resource_path
from kcm.runtime.apiserver.core.identifiers import Identifiers
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.client.api import Request
from kcm.runtime.tables.frozen import freeze
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables
from tests.actors.controllers.workloads.deployment.objects import LABELS, strategy, template

KEY = "default/web"
REVISION = "deployment.kubernetes.io/revision"


class Cluster:
    """Cluster with the Deployment web. driven: its reconciliations so far."""

    def __init__(self) -> None:
        self.clock = StillClock()
        numbers = itertools.count(1)
        self.server = ApiServer(
            store=MemoryStore(),
            clock=self.clock,
            identifiers=Identifiers(lambda: f"uid-{next(numbers)}", lambda: f"{next(numbers):05}"),
        )
        self._tables = {
            DEPLOYMENTS.id: Table(DEPLOYMENTS, freeze=freeze),
            REPLICASETS.id: Table(REPLICASETS, freeze=freeze),
            PODS.id: Table(PODS, derive=pod_facts, freeze=freeze),
        }
        self._writers = {resource_id: table.claim() for resource_id, table in self._tables.items()}
        self.restart()
        self.driven: list[Driven] = []

    # Requests of users and of other controllers.

    def answer(self, command: Command) -> Outcome:
        return outcome_of(self.server.handle(request_for(command)))

    def must(self, command: Command) -> Object:
        outcome = self.answer(command)
        assert isinstance(outcome, Done), outcome
        return decode_object(outcome.body)

    def all(self, resource: Resource) -> list[Object]:
        response = self.server.handle(Request(method="GET", path=resource_path(resource.id)))
        assert response.status == 200
        return decode_object(response.body)["items"]

    def create_deployment(self, replicas: int = 3, *, max_surge: int = 1, max_unavailable: int = 0, **spec) -> None:
        body = {
            "metadata": {"name": "web", "namespace": "default", "labels": LABELS},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": LABELS},
                "template": template(),
                "strategy": strategy(max_surge, max_unavailable),
                **spec,
            },
        }
        self.must(Create(DEPLOYMENTS.id, "default", encode_object(body)))

    @property
    def deployment(self) -> Object:
        return self._only(DEPLOYMENTS, "web")

    def edit(self, change: Callable[[Object], None], resource: Resource = DEPLOYMENTS, name: str = "web") -> None:
        """Change an object, as `kubectl edit` does."""
        obj = self._only(resource, name)
        change(obj)
        self.must(Update(resource.id, key_of(obj), encode_object(obj)))

    def set(self, **spec) -> None:
        self.edit(lambda obj: obj["spec"].update(spec))

    def set_status(self, status: Object) -> None:
        body = encode_object({**self.deployment, "status": status})
        self.must(Update(DEPLOYMENTS.id, KEY, body, subresource="status"))

    def delete_deployment(self) -> None:
        self.must(Delete(DEPLOYMENTS.id, KEY, propagation="Orphan"))

    def set_image(self, image: str) -> None:
        self.set(template=template(image))

    def annotate(self, **annotations: str) -> None:
        self.edit(lambda obj: obj["metadata"].setdefault("annotations", {}).update(annotations))

    def condition(self, type: str = "Progressing") -> tuple[str, str, str]:
        """Return (status, reason, message) of a condition."""
        (found,) = [each for each in self.deployment["status"]["conditions"] if each["type"] == type]
        return found["status"], found["reason"], found["message"]

    def replica_sets(self) -> dict[int, Object]:
        """Return the ReplicaSets by revision."""
        return {
            int(each["metadata"]["annotations"][REVISION]): each
            for each in self.all(REPLICASETS)
            if REVISION in each["metadata"].get("annotations", {})
        }

    def sizes(self) -> dict[int, int]:
        """Return spec.replicas by revision."""
        return {revision: each["spec"]["replicas"] for revision, each in sorted(self.replica_sets().items())}

    def images(self) -> dict[int, str]:
        return {
            revision: each["spec"]["template"]["spec"]["containers"][0]["image"]
            for revision, each in sorted(self.replica_sets().items())
        }

    # Other controllers and kubelets.

    def run_replica_sets(self) -> None:
        """Create and delete pods as the ReplicaSet controller does, and update the status of all ReplicaSets."""
        for replica_set in self.all(REPLICASETS):
            pods = self.pods_of(replica_set)
            wanted = replica_set["spec"]["replicas"]
            for _ in range(wanted - len(pods)):
                reference = owner_reference(replica_set, api_version="apps/v1", kind="ReplicaSet")
                meta = {"generateName": f"{name_of(replica_set)}-", "labels": LABELS, "ownerReferences": [reference]}
                body = {"metadata": meta, "spec": replica_set["spec"]["template"]["spec"]}
                self.must(Create(PODS.id, "default", encode_object(body)))
            for pod in sorted(pods, key=_is_ready)[: max(0, len(pods) - wanted)]:
                self.must(Delete(PODS.id, key_of(pod), grace_seconds=0))
            self.report(replica_set)

    def report(self, replica_set: Object) -> None:
        """Write the status of a ReplicaSet from its pods."""
        pods = self.pods_of(replica_set)
        ready = sum(map(_is_ready, pods))
        self.edit_status(
            REPLICASETS,
            name_of(replica_set),
            replicas=len(pods),
            readyReplicas=ready,
            availableReplicas=ready,
            terminatingReplicas=0,
            observedGeneration=replica_set["metadata"]["generation"],
        )

    def make_ready(self, at_most: int | None = None) -> None:
        """Make at most this number of unready pods ready; all by default."""
        for pod in [each for each in self.all(PODS) if not _is_ready(each)][:at_most]:
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            self.edit_status(PODS, name_of(pod), **ready)

    def edit_pods(self, **changes) -> None:
        """Change the status of every pod."""
        for pod in self.all(PODS):
            self.edit_status(PODS, name_of(pod), **changes)

    def edit_status(self, resource: Resource, name: str, **changes) -> None:
        obj = self._only(resource, name)
        obj["status"] = {**obj.get("status", {}), **changes}
        self.must(Update(resource.id, key_of(obj), encode_object(obj), subresource="status"))

    def pods_of(self, replica_set: Object) -> list[Object]:
        uid = replica_set["metadata"]["uid"]
        return [pod for pod in self.all(PODS) if (owner := controller_of(pod)) is not None and owner.uid == uid]

    # The controller.

    def restart(self) -> None:
        """Start a new incarnation of the controller, with an empty overlay."""
        self.tables = Tables(self._tables)
        self.reconciler = DeploymentReconciler(tables=self.tables, clock=self.clock)

    def observe(self, *resources: Resource) -> None:
        """Let watches catch up, by default those of all resources."""
        for resource in resources or (DEPLOYMENTS, REPLICASETS, PODS):
            table = self._tables[resource.id]
            entries = [table.make_entry(obj, encode_object(obj)) for obj in self.all(resource)]
            self._writers[resource.id].replace(entries, self.server.revision)

    def reconcile(self, **options) -> Driven:
        """Reconcile the observed state. options: those of drive()."""
        answer = options.pop("answer", self.answer)
        self.driven.append(drive(self.reconciler, KEY, answer, tables=self.tables, **options))
        return self.driven[-1]

    def sync(self, **options) -> Driven:
        """Reconcile after the watches have caught up."""
        self.observe()
        return self.reconcile(**options)

    def settle(self) -> list[tuple[str, str, str]]:
        """Reconcile with up-to-date watches until nothing is written. Return the events."""
        events = []
        for _ in range(50):
            driven = self.sync()
            events += driven.events
            if not driven.commands:
                return events
        raise AssertionError("the controller never stops writing")

    def roll_out(self) -> list[tuple[str, str, str]]:
        """Run the controllers, making one pod ready at a time, until no object changes. Return the events."""
        events = []
        for _ in range(200):
            before = self.server.revision
            self.clock.advance(1)
            events += self.settle()
            self.run_replica_sets()
            self.make_ready(at_most=1)
            self.run_replica_sets()
            if self.server.revision == before:
                return events
        raise AssertionError("the controller never stops writing")

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return [event for driven in self.driven for event in driven.events]

    def _only(self, resource: Resource, name: str) -> Object:
        (found,) = [each for each in self.all(resource) if name_of(each) == name]
        return found


def _is_ready(pod: Object) -> bool:
    return any(each["type"] == "Ready" for each in pod["status"].get("conditions", []))
