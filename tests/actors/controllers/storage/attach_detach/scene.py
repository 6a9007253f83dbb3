"""Builders of nodes, pods and volumes, and a bench that runs the attach/detach controller with its queues."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from structlog.testing import CapturingLogger

from kcm.actors.controllers.storage.attach_detach import SPEC
from kcm.actors.controllers.storage.attach_detach.operation_executor import NODE_QUEUE
from kcm.actors.controllers.storage.attach_detach.reconciler import POD_QUEUE, VOLUME_QUEUE, AttachDetach
from kcm.actors.reconciliation import RequeueAfter
from kcm.actors.simulation.driver import Bench, drive_steps
from kcm.protocols.csi import CsiSource, attachment_name
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.nodes import CONTROLLER_ATTACHES
from kcm.protocols.objects import Key, Object, encode_object, is_deleting, key_of, make_key, name_of
from kcm.protocols.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    VOLUME_ATTACHMENTS,
    Resource,
)
from kcm.runtime.metrics.registry import Family, Metrics

QUEUES = {NODES: NODE_QUEUE, PODS: POD_QUEUE}
DRIVER = "disk.example.com"
DISK = f"kubernetes.io/csi/{DRIVER}^disk"  # unique name of the volume "disk"
LATER = "2026-01-01T00:00:00Z"


def node(
    name: str = "n1",
    *,
    ready: bool = True,
    managed: bool = True,
    in_use: Iterable[str] = (),
    attached: Iterable[str] = (),
    taints: Iterable[Mapping[str, str]] = (),
) -> Object:
    status: Object = {"conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
    if in_use:
        status["volumesInUse"] = list(in_use)
    if attached:
        status["volumesAttached"] = [{"name": volume, "devicePath": ""} for volume in attached]
    annotations = {CONTROLLER_ATTACHES: "true"} if managed else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"taints": list(taints)},
        "status": status,
    }


def disk(name: str = "disk", *, modes: Iterable[str] = ("ReadWriteOnce",), claim: str = "", **source: Any) -> Object:
    """Return a PersistentVolume that is bound to the claim of its name, or to another claim."""
    claim = claim or name
    reference = {"namespace": "default", "name": claim, "uid": f"uid-of-{claim}"}
    source = source or {"csi": {"driver": DRIVER, "volumeHandle": name}}
    return {"metadata": {"name": name}, "spec": {"accessModes": list(modes), "claimRef": reference, **source}}


def claim(name: str = "disk", *, to: str = "", phase: str = "Bound", namespace: str = "default", **meta: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": namespace, **meta},
        "spec": {"volumeName": to or name},
        "status": {"phase": phase},
    }


def pod(
    name: str = "pod",
    *,
    on: str = "n1",
    of: str = "disk",
    namespace: str = "default",
    phase: str = "Running",
    volume: Mapping[str, Any] | None = None,
    **meta: Any,
) -> Object:
    """Return a pod on a node. of: its claim. volume: its volume, if it is not a claim."""
    source = {"name": "data", "persistentVolumeClaim": {"claimName": of}} if volume is None else dict(volume)
    spec: Object = {"volumes": [source], **({"nodeName": on} if on else {})}
    return {"metadata": {"name": name, "namespace": namespace, **meta}, "spec": spec, "status": {"phase": phase}}


def attachment(
    volume: str = "disk", on: str = "n1", *, driver: str = DRIVER, deleted: bool = False, **status: Any
) -> Object:
    name = attachment_name(CsiSource(driver, volume), on)
    meta: Object = {"name": name, "finalizers": [f"external-attacher/{driver}"]}
    if deleted:
        meta["deletionTimestamp"] = LATER
    source = {"persistentVolumeName": volume}
    return {
        "metadata": meta,
        "spec": {"attacher": driver, "nodeName": on, "source": source},
        "status": {"attached": False, **status},
    }


class Scene:
    """Bench with the controller, an external attacher, and the work queues.

    attacher: what the external attacher does: "on" (attach and detach), "off", or "failing".
    refusing: called with each command; an outcome other than None is returned in place of the server's.
    """

    def __init__(
        self,
        nodes: Iterable[Object] = (),
        pods: Iterable[Object] = (),
        volumes: Iterable[Object] = (),
        claims: Iterable[Object] | None = None,
        *,
        attachments: Iterable[Object] = (),
        drivers: Iterable[Object] = (),
        **options: Any,
    ) -> None:
        volumes = list(volumes)
        if claims is None:
            claims = [claim(volume["spec"]["claimRef"]["name"], to=name_of(volume)) for volume in volumes]
        self.bench = Bench(
            {
                NODES: nodes,
                PODS: pods,
                PERSISTENT_VOLUMES: volumes,
                PERSISTENT_VOLUME_CLAIMS: claims,
                VOLUME_ATTACHMENTS: attachments,
                CSI_DRIVERS: drivers,
                CSI_NODES: (),
            },
            indexes=SPEC.indexes,
            facts=SPEC.facts,
        )
        self.metrics, self.log = Metrics(), CapturingLogger()
        self.attacher = "on"
        self.refusing: Callable[[Command], Outcome | None] = lambda _command: None
        self.commands: list[Command] = []
        self.records: list[Record] = []
        self._options = options
        self._due: dict[tuple[str, Key], float] = {}
        self._starts = True
        self.controller = self.restart()

    def restart(self) -> AttachDetach:
        """Replace the controller, as after a crash."""
        self.bench.forget_writes()
        self.controller = AttachDetach(
            tables=self.bench.tables,
            clock=self.bench.clock,
            log=self.log,  # type: ignore[arg-type]
            metrics=self.metrics,
            **self._options,
        )
        self._due.clear()
        self._starts = True
        return self.controller

    def settle(self, seconds: float = 0.0) -> Scene:
        """Run the queues, and let time pass."""
        end = self.bench.clock.monotonic() + seconds
        for resource, queue in QUEUES.items() if self._starts else ():
            for entry in self.bench.tables[resource].entries():
                self._due[queue, entry.key] = 0.0
        self._starts = False
        while True:
            while self._run_due() or self._attach():
                pass
            later = min(self._due.values(), default=end + 1)
            now = self.bench.clock.monotonic()
            if later > end:
                self.bench.clock.advance(end - now)
                return self
            self.bench.clock.advance(later - now)

    def show(self, resource: Resource, obj: Object) -> Scene:
        """Show an object to the controller, and run the queues."""
        self.bench.show(resource, obj)
        self.enqueue(resource, key_of(obj))
        return self.settle()

    def enqueue(self, resource: Resource, key: Key) -> None:
        self._due[QUEUES[resource], key] = 0.0

    def hide(self, resource: Resource, key: Key) -> Scene:
        self.bench.hide(resource, key)
        self.enqueue(resource, key)
        return self.settle()

    def run(self, function: Callable[[], Any]) -> Scene:
        """Run a pass of the controller, and the queues."""
        self._finish(drive_steps(function(), self._answer, tables=self.bench.tables), None)
        return self.settle()

    def _run_due(self) -> bool:
        now = self.bench.clock.monotonic()
        due = [key for key, at in self._due.items() if at <= now]
        functions = {
            NODE_QUEUE: self.controller.sync_node,
            POD_QUEUE: self.controller.sync_pod,
            VOLUME_QUEUE: self.controller.sync_volume,
        }
        for queue, key in due:
            del self._due[queue, key]
            try:
                driven = drive_steps(functions[queue](key), self._answer, tables=self.bench.tables)
            except Exception:
                self._due[queue, key] = now + 1.0
                continue
            self._finish(driven, (queue, key))
        return bool(due)

    def _finish(self, driven: Any, key: tuple[str, Key] | None) -> None:
        self.records += driven.records
        for each in driven.enqueued:
            self._due[each.queue, str(each.key)] = 0.0
        if key is not None and isinstance(driven.result, RequeueAfter):
            self._due.setdefault(key, self.bench.clock.monotonic() + driven.result.seconds)

    def _answer(self, command: Command) -> Outcome:
        if not isinstance(command, Get):
            self.commands.append(command)
        refused = self.refusing(command)
        if refused is not None:
            return refused
        if isinstance(command, Delete):  # the finalizer of the attacher
            known = self.bench.tables[VOLUME_ATTACHMENTS].get(command.key)
            if known is not None:
                meta = {**known["metadata"], "deletionTimestamp": LATER, "finalizers": ["external-attacher/x"]}
                version = str(int(meta["resourceVersion"]) + 1000)
                return Done(encode_object({**known, "metadata": {**meta, "resourceVersion": version}}))
        return self.bench.accept(command)

    def _attach(self) -> bool:
        """Carry out VolumeAttachments as an external attacher. Return whether one has changed."""
        self.bench.catch_up()
        changed = False
        for known in self.bench.tables[VOLUME_ATTACHMENTS].objects():
            status, name = known.get("status") or {}, name_of(known)
            if self.attacher == "on" and is_deleting(known):
                self.bench.hide(VOLUME_ATTACHMENTS, name)
            elif self.attacher == "on" and not status.get("attached"):
                self._update(known, {"attached": True})
            elif self.attacher == "failing" and is_deleting(known) and not status.get("detachError"):
                self._update(known, {**status, "detachError": {"message": "still busy"}})
            elif self.attacher == "failing" and not is_deleting(known) and not status.get("attachError"):
                self._update(known, {"attached": False, "attachError": {"message": "no such disk"}})
            else:
                continue
            changed = True
            for enqueued in drive_steps(
                self.controller.sync_attachment(name), self._answer, tables=self.bench.tables
            ).enqueued:
                self._due[enqueued.queue, str(enqueued.key)] = 0.0
        return changed

    def _update(self, known: Object, status: Object) -> None:
        meta = {name: value for name, value in known["metadata"].items() if name != "resourceVersion"}
        self.bench.show(VOLUME_ATTACHMENTS, {**known, "metadata": meta, "status": status})

    # What the controller has done.

    def took(self, *types: type[Command]) -> list[Any]:
        """Return the commands of these types since the last call, and clear them."""
        found = [command for command in self.commands if isinstance(command, types or (Create, Delete, Patch))]
        self.commands.clear()
        return found

    @property
    def attached(self) -> dict[str, list[str]]:
        """Return the nodes of each VolumeAttachment by the name of the volume."""
        found: dict[str, list[str]] = {}
        for known in self.bench.tables[VOLUME_ATTACHMENTS].objects():
            spec = known["spec"]
            found.setdefault(spec["source"].get("persistentVolumeName") or "inline", []).append(spec["nodeName"])
        return {name: sorted(nodes) for name, nodes in sorted(found.items())}

    def reported(self, name: str = "n1") -> list[str]:
        """Return the volumes in the status of a node."""
        known = self.bench.tables[NODES].get(name)
        assert known is not None
        return [each["name"] for each in (known.get("status") or {}).get("volumesAttached") or ()]

    def events(self, name: str = "pod") -> list[tuple[str, str, str]]:
        """Return the events of a pod since the last call, and clear them."""
        found = [(each.type, each.reason, each.message) for each in self.records if each.name == name]
        self.records.clear()
        return found

    def metric(self, family: Family, *labels: str) -> float:
        series = self.metrics.counter if family.kind == "counter" else self.metrics.gauge
        return series(family, *labels).value


def key_of_pod(name: str = "pod") -> Key:
    return make_key("default", name)
