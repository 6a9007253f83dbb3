"""Bench with a DaemonSet, its nodes, pods and revisions, and the reconciler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from structlog.typing import FilteringBoundLogger

from kcm.actors.controllers.shared.controller_revisions import template_data
from kcm.actors.controllers.workloads.daemonset.objects import GENERATION_ANNOTATION, HASH_LABEL
from kcm.actors.controllers.workloads.daemonset.pods import bound_to
from kcm.actors.controllers.workloads.daemonset.reconciler import DaemonSetReconciler
from kcm.actors.simulation.driver import Answer, Bench, Driven, drive
from kcm.protocols.messages.commands import Create, Delete
from kcm.protocols.objects import Object, labels_of, make_key, name_of, owner_reference
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, NODES, PODS
from kcm.protocols.times import format_time

KEY = "default/agent"
LABELS = {"app": "agent"}


def template(image: str = "v1", **spec: Any) -> Object:
    return {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def daemon_set(
    image: str = "v1",
    *,
    unavailable: int | str = 1,
    surge: int | str = 0,
    generation: int = 1,
    pod: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    status: Object | None = None,
    **spec: Any,
) -> Object:
    """Return a DaemonSet.

    pod: further fields of the pod spec. generation: of both the template and the spec.
    """
    rolling = {"maxUnavailable": unavailable, "maxSurge": surge}
    return {
        "metadata": {
            "name": "agent",
            "namespace": "default",
            "uid": "uid-of-agent",
            "generation": generation,
            "annotations": {GENERATION_ANNOTATION: str(generation)},
            **(meta or {}),
        },
        "spec": {
            "selector": {"matchLabels": LABELS},
            "template": template(image, **(pod or {})),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
            **spec,
        },
        "status": status or {},
    }


def node(name: str, *, taints: Sequence[Object] = (), **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}}


def nodes(count: int) -> list[Object]:
    return [node(f"n{number}") for number in range(count)]


class Scene:
    """Reconciler with its tables, which show its writes at once."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        obj: Object,
        *,
        nodes: Sequence[Object] = (),
        pods: Sequence[Object] = (),
        revisions: Sequence[Object] = (),
        **options: Any,
    ) -> None:
        objects = {DAEMONSETS: [obj], NODES: nodes, PODS: pods, CONTROLLER_REVISIONS: revisions}
        self.bench = Bench(objects)
        self.clock = self.bench.clock
        self.reconciler = DaemonSetReconciler(tables=self.bench.tables, clock=self.clock, log=log, **options)

    @property
    def tables(self) -> Any:
        return self.bench.tables

    def sync(self, answer: Answer | None = None, **options: Any) -> Driven:
        return drive(self.reconciler, KEY, answer or self.bench.accept, tables=self.tables, **options)

    def counted(self) -> tuple[int, int]:
        """Return the numbers of pods that a sync creates and deletes. Deleted pods disappear at once."""
        driven = self.sync()
        made = [command for command in driven.of(Create) if command.resource == PODS.id]
        gone = [command.key for command in driven.of(Delete) if command.resource == PODS.id]
        self.bench.catch_up()
        for key in gone:
            if self.tables[PODS].get(key) is not None:
                self.bench.hide(PODS, key)
        return len(made), len(gone)

    def change(self, **changes: Any) -> None:
        """Replace the DaemonSet by daemon_set(...), as a user does. The status is kept."""
        known = self.tables[DAEMONSETS].get(KEY)
        self.bench.show(DAEMONSETS, {**daemon_set(**changes), "status": known["status"]})

    def pods(self) -> list[Object]:
        return sorted(self.tables[PODS].objects("default"), key=name_of)

    def edit(self, pod: Object, change: Callable[[Object], Object]) -> None:
        meta = {name: value for name, value in pod["metadata"].items() if name != "resourceVersion"}
        self.bench.show(PODS, change({**pod, "metadata": meta}))

    def make_ready(self, *, seconds_ago: float = 100.0) -> None:
        """Make all unready pods ready, on their nodes."""
        since = format_time(self.clock.now() - seconds_ago)
        for pod in self.pods():
            if not (pod.get("status") or {}).get("conditions"):
                self.edit(pod, lambda obj: ready(obj, since))

    def fail(self, pod: Object) -> None:
        self.edit(pod, lambda obj: {**obj, "status": {"phase": "Failed"}})

    def status(self) -> Object:
        found: Object = self.tables[DAEMONSETS].get(KEY)["status"]
        return found

    def hashes(self) -> list[str]:
        return [labels_of(pod).get(HASH_LABEL, "") for pod in self.pods()]

    def revisions(self) -> list[tuple[str, int]]:
        """Return name and number of each revision, sorted by number."""
        found = [(name_of(obj), obj["revision"]) for obj in self.tables[CONTROLLER_REVISIONS].objects("default")]
        return sorted(found, key=lambda obj: obj[1])


def target(pod: Object) -> str:
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found: str = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0]
    return found


def ready(pod: Object, since: str) -> Object:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    spec = {**pod["spec"], "nodeName": pod["spec"].get("nodeName") or target(pod)}
    return {**pod, "spec": spec, "status": {"phase": "Running", "conditions": conditions}}


def owned(name: str, on: str, *, phase: str = "Running", bound: bool = True, **meta: Any) -> Object:
    """Return a pod of the DaemonSet with an unknown template. bound: it is scheduled to the node already."""
    reference = owner_reference(daemon_set(), api_version="apps/v1", kind="DaemonSet")
    labels = {**LABELS, **meta.pop("labels", {})}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [reference], **meta},
        "spec": {"nodeName": on} if bound else {"affinity": bound_to(None, on)},
        "status": {"phase": phase},
    }


def revision(name: str, number: int, image: str = "v1", *, hash: str | None = "", uid: str = "uid-of-agent") -> Object:
    """Return a ControllerRevision of the DaemonSet. hash: value of its label, by default its name; None omits it."""
    owner = owner_reference({"metadata": {"name": "agent", "uid": uid}}, api_version="apps/v1", kind="DaemonSet")
    labels = {**LABELS} if hash is None else {**LABELS, HASH_LABEL: hash or name}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner]},
        "data": template_data(daemon_set(image)),
        "revision": number,
    }


def pod_key(name: str) -> str:
    return make_key("default", name)
