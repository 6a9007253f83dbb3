"""Scenario: one kind of stuck object, how it is produced, and the code of its first cause."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.kinds import resource_named
from kcm.protocols.objects import Object
from kcm.protocols.resources import PODS, Resource
from tests.actors.explanation.stage import Stage


class Scene:
    """Place of one scenario on a stage: a namespace of its own, and random choices.

    chance: choices of the scenario; equal for equal seeds.
    """

    def __init__(self, stage: Stage, namespace: str, chance: random.Random) -> None:
        self.stage, self.namespace, self.chance = stage, namespace, chance
        self.cluster = stage.cluster

    def apply(self, obj: Object) -> Object:
        """Create an object in the namespace of the scenario, unless it names another."""
        return self.stage.apply({**obj, "metadata": {"namespace": self.namespace, **obj["metadata"]}})

    def create(self, resource: Resource, name: str, body: Mapping[str, Any], **metadata: Any) -> Object:
        """Create an object of any kind, also of one that has no known name."""
        place = {"namespace": self.namespace} if resource.namespaced else {}
        return self.cluster.create(resource, {"metadata": {"name": name, **place, **metadata}, **body})

    def get(self, kind: str, name: str) -> Object:
        resource = resource_of(kind)
        found = self.cluster.get(resource, self.key(name) if resource.namespaced else name)
        assert found is not None, (kind, name)
        return found

    def pods(self) -> list[Object]:
        return self.cluster.list(PODS, self.namespace)

    def key(self, name: str) -> str:
        return f"{self.namespace}/{name}"

    def merge(self, kind: str, name: str, changes: Mapping[str, Any], *, subresource: str = "") -> Object:
        resource = resource_of(kind)
        key = self.key(name) if resource.namespaced else name
        return self.cluster.merge(resource, key, changes, subresource=subresource)

    def delete(self, kind: str, name: str, *, policy: str = "") -> None:
        resource = resource_of(kind)
        self.cluster.delete(resource, self.key(name) if resource.namespaced else name, policy=policy)

    def run(self, seconds: float) -> None:
        self.stage.run(seconds)

    # Objects.

    def pod_owner(self, name: str, *, kind: str = "", replicas: int = 1, **template: Any) -> tuple[str, str]:
        """Create an owner of pods with this template, and return its kind and name.

        kind: drawn if empty: deployment, statefulset, replicaset, daemonset or pod.
        template: fields of the pod's spec; `metadata` for the pod's own.
        """
        kind = kind or self.chance.choice(("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet", "Pod"))
        spec, metadata = pod_template(name, **template)
        if kind == "Pod":
            self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec})
            return kind, name
        labels = {"app": name}
        body: Object = {"selector": {"matchLabels": labels}, "template": {"metadata": metadata, "spec": spec}}
        if kind != "DaemonSet":
            body["replicas"] = replicas
        if kind == "StatefulSet":
            body["serviceName"] = name
        self.apply({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body})
        return kind, name


def pod_template(name: str, **template: Any) -> tuple[Object, Object]:
    """Return spec and metadata of a pod. container: fields of its container; annotations; other fields of its spec."""
    container = {"name": "main", "image": "nginx:1.27", **template.pop("container", {})}
    metadata: Object = {"labels": {"app": name}}
    if annotations := template.pop("annotations", None):
        metadata["annotations"] = annotations
    return {"containers": [container], **template}, metadata


def resource_of(kind: str) -> Resource:
    resource = resource_named(kind)
    assert resource is not None, kind
    return resource


Act = Callable[[Scene], tuple[str, str]]  # produces the object, and returns its kind and its name


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Kind of stuck object.

    name: unique.
    code: of the first cause; alternatives are separated by "|".
    further: codes that are among the further causes.
    act: produces the object.
    wait: seconds until it is explained, at least; exact if they are fewer than 10.
    flags, stage: of the manager and of the stage; scenarios with the same ones share a cluster. Flags that name files
        are returned by a function, of a scenario that is alone.
    alone: changes more than its namespace, so that it needs a cluster of its own.
    """

    name: str
    code: str
    act: Act
    further: tuple[str, ...] = ()
    wait: float = 60.0
    flags: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()
    stage: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False

    @property
    def codes(self) -> frozenset[str]:
        """Return the codes that this kind shows: of its first and of its further causes."""
        return frozenset((*self.code.split("|"), *self.further))

    def accepts(self, found: str, explanation: Explanation) -> bool:
        """Report whether the first cause is right. found: its code, or the verdict without a cause."""
        del explanation
        return found in self.code.split("|")
