"""Simulated cluster whose manager runs only the device taint eviction controller."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.app.arguments import read_options
from kcm.actors.app.system import ControllerSystem
from kcm.actors.controllers.devices.device_taint_eviction import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, decode_object
from kcm.protocols.resources import DEVICE_TAINT_RULES, EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.kinds.resource import device_taint_rule

DRIVER, POOL, KEY, VALUE = "some-driver", "worker", "example.com/taint", "something"
MARKED, CANCELLED = "Marking for deletion", "Cancelling deletion"
RULES = "--feature-gates=DRADeviceTaintRules=true"
GROUPS = "--feature-gates=DRADeviceTaintRules=true,GenericWorkload=true,DRAWorkloadResourceClaims=true"
WITHOUT_RULES = "--feature-gates=DRADeviceTaintRules=false"
STATUS_PERIOD = 10.0


def toleration(seconds: int | None = None, **fields: Any) -> Object:
    found: Object = {"operator": "Exists", "effect": "NoExecute", **fields}
    return found if seconds is None else {**found, "tolerationSeconds": seconds}


class Scene:
    """Simulated cluster whose manager runs only the device taint eviction controller.

    Times are virtual seconds since the manager was ready, which is also the default of timeAdded (`taint`).
    """

    def __init__(self, cluster: SimulatedCluster, flags: str = RULES) -> None:
        self.cluster = cluster
        cluster.serve(device_taint_rule.RESOURCE)
        cluster.restart_server()
        self.manager = self.start(flags)

    def start(self, flags: str = RULES) -> ControllerSystem:
        self.manager = self.cluster.manager(controllers=[SPEC], options=read_options([flags]))
        self.cluster.run_for(3.0)
        self.began, self.wall = self.cluster.clock.monotonic(), self.cluster.clock.now()
        return self.manager

    def taint(self, effect: str = "NoExecute", *, key: str = KEY, value: str = VALUE, at: float = 0.0) -> Object:
        return {"key": key, "value": value, "effect": effect, "timeAdded": format_time(self.wall + at)}

    def slice(
        self,
        taints: Iterable[Object] = (),
        *,
        name: str = "s",
        device: str = "instance",
        generation: int = 1,
        **more: Any,
    ) -> None:
        """Create or replace a slice with one device that has these taints, and another device."""
        pool = {"name": POOL, "generation": generation, "resourceSliceCount": 1}
        devices = [{"name": device, "taints": list(taints)}, {"name": "unused"}]
        spec = {"driver": DRIVER, "pool": pool, "nodeName": POOL, "devices": devices, **more}
        self.put(RESOURCE_SLICES, {"metadata": {"name": name}, "spec": spec})

    def claim(
        self,
        name: str = "c",
        *,
        devices: Iterable[str] = ("instance",),
        tolerations: Iterable[Object] = (),
        consumers: Iterable[Mapping[str, Any]] | None = None,
        namespace: str = "default",
        owner: str = "",
        allocated: bool = True,
    ) -> None:
        """Create a claim, and allocate it. consumers: of status.reservedFor; None: the pod p. owner: a pod."""
        uid = self.consumer(owner)["uid"] if owner else ""
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": uid, "controller": True}] if owner else []
        meta = {"name": name, "namespace": namespace, "ownerReferences": owners}
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        if self.cluster.get(RESOURCE_CLAIMS, f"{namespace}/{name}") is None:
            self.cluster.create(RESOURCE_CLAIMS, {"metadata": meta, "spec": {"devices": {"requests": [request]}}})
        if not allocated:
            status: Any = {"allocation": None, "reservedFor": None}
        else:
            results = [
                {"request": "r", "driver": DRIVER, "pool": POOL, "device": device, "tolerations": list(tolerations)}
                for device in devices
            ]
            status = {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [self.consumer("p", namespace)] if consumers is None else list(consumers),
            }
        self.cluster.merge(RESOURCE_CLAIMS, f"{namespace}/{name}", {"status": status}, subresource="status")

    def consumer(self, pod: str = "p", namespace: str = "default") -> Object:
        found = self.cluster.get(PODS, f"{namespace}/{pod}")
        return {"resource": "pods", "name": pod, "uid": "none" if found is None else found["metadata"]["uid"]}

    def pod(
        self,
        name: str = "p",
        *,
        claims: Iterable[str] = ("c",),
        template: bool = False,
        generated: str | None = "c",
        node: str = POOL,
        namespace: str = "default",
        **spec: Any,
    ) -> str:
        """Create a pod that uses claims, and return its uid. generated: claim in its status, if it has a template."""
        entries = [{"name": claim, "resourceClaimName": claim} for claim in claims]
        if template:
            entries = [{"name": "c", "resourceClaimTemplateName": "t"}]
        containers = [{"name": "main", "image": "nginx"}]
        whole = {"containers": containers, "nodeName": node, "resourceClaims": entries, **spec}
        self.cluster.create(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": whole})
        if template and generated != "":
            statuses = [{"name": "c"} if generated is None else {"name": "c", "resourceClaimName": generated}]
            status = {"status": {"resourceClaimStatuses": statuses}}
            self.cluster.merge(PODS, f"{namespace}/{name}", status, subresource="status")
        return str((self.cluster.get(PODS, f"{namespace}/{name}") or {})["metadata"]["uid"])

    def rule(self, taint: Object, name: str = "evict", **selector: str) -> None:
        spec = {"deviceSelector": selector or {"driver": DRIVER}, "taint": taint}
        self.put(DEVICE_TAINT_RULES, {"metadata": {"name": name}, "spec": spec})

    def put(self, resource: Resource, obj: Object) -> None:
        stored = self.cluster.get(resource, obj["metadata"]["name"])
        if stored is None:
            self.cluster.create(resource, obj)
        else:
            self.cluster.merge(resource, obj["metadata"]["name"], {"spec": obj["spec"]})

    def run_for(self, seconds: float) -> None:
        self.cluster.run_for(seconds)

    @property
    def now(self) -> float:
        return self.cluster.clock.monotonic() - self.began

    def evictions(self) -> dict[str, float]:
        """Return the time at which each pod was deleted, by name."""
        return {
            request.path.rpartition("/")[2]: at - self.began
            for at, who, request in self.cluster.transport.requests
            if who == SPEC.name and request.method == "DELETE"
        }

    def events(self, about: str = "p") -> list[str]:
        self.cluster.run_for(2.0)
        events = [event for event in self.cluster.list(EVENTS) if event["involvedObject"]["name"] == about]
        assert {(event["type"], event["reason"]) for event in events} <= {("Normal", "DeviceTaintManagerEviction")}
        assert {event["source"]["component"] for event in events} <= {SPEC.name}
        ordered = sorted(events, key=lambda event: (event["firstTimestamp"], event["message"]))
        return [event["message"] for event in ordered for _ in range(event.get("count", 1))]

    def condition(self, rule: str = "evict") -> tuple[str, str, str, float] | None:
        """Return status, reason, message and time of a rule's condition."""
        found = self.cluster.get(DEVICE_TAINT_RULES, rule) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        for condition in conditions:
            assert condition["type"] == "EvictionInProgress"
            assert condition["observedGeneration"] == found["metadata"]["generation"]
            at = self.statuses(rule)[-1][0]
            return condition["status"], condition["reason"], condition["message"], at
        return None

    def statuses(self, rule: str = "evict") -> list[tuple[float, str, str]]:
        """Return time, reason and message of each condition that was written."""
        return [
            (round(at - self.began, 1), condition["reason"], condition["message"])
            for at, who, request in self.cluster.transport.requests
            if who == SPEC.name and request.path.endswith(f"/{rule}/status")
            for condition in decode_object(request.body)["status"]["conditions"]
        ]
