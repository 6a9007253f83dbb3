"""Tests of the claims of ephemeral volumes.

Source of the cases: kubernetes v1.36 pkg/controller/volume/ephemeral/controller_test.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from structlog.testing import CapturingLogger

from kcm.actors.controllers.storage.ephemeral_volume import (
    CREATIONS,
    FAILURES,
    SPEC,
    EphemeralVolumes,
    ForeignClaimError,
    existing_pod,
    pods_of_claim,
)
from kcm.actors.reconciliation import Change, Enqueue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, Driven, bodies, drive, drive_steps, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Get
from kcm.protocols.messages.outcomes import Conflict, Done, Forbidden, NotFound, Outcome, Refused, Unknown
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kcm.runtime.metrics.registry import Metrics

LATER = "2026-01-01T00:00:00Z"
SPEC_OF_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def ephemeral(name: str = "data", **metadata: Any) -> Object:
    template: Object = {"spec": SPEC_OF_CLAIM}
    if metadata:
        template["metadata"] = metadata
    return {"name": name, "ephemeral": {"volumeClaimTemplate": template}}


def pod(*volumes: Object, **meta: Any) -> Object:
    return {"metadata": {"name": "pod", "namespace": "default", "uid": "pod", **meta}, "spec": {"volumes": [*volumes]}}


def claim(name: str = "pod-data", *, owner: str = "pod", namespace: str = "default", controller: bool = True) -> Object:
    meta: Object = {"name": name, "namespace": namespace}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": owner, "controller": controller}
        meta["ownerReferences"] = [reference]
    return {"metadata": meta, "spec": SPEC_OF_CLAIM}


class Scene:
    """Bench with the reconciler, and its metrics."""

    def __init__(self, pods: Iterable[Object], claims: Iterable[Object] = ()) -> None:
        self.bench, self.metrics = (
            Bench({PODS: pods, PERSISTENT_VOLUME_CLAIMS: claims}, indexes=SPEC.indexes),
            Metrics(),
        )
        self.log = CapturingLogger()
        self.reconciler = EphemeralVolumes(
            tables=self.bench.tables,
            log=CapturingLogger(),  # type: ignore[arg-type]
            metrics=self.metrics,
        )

    def reconcile(self, *, outcome: Outcome | None = None, raises: type[Exception] | None = None) -> Driven:
        answer = self.bench.accept
        if outcome is not None:
            answer = failing(after=0, outcome=outcome, to=Create, otherwise=answer)
        return drive(self.reconciler, "default/pod", answer, tables=self.bench.tables, raises=raises)

    def counts(self) -> tuple[float, float]:
        return self.metrics.counter(CREATIONS).value, self.metrics.counter(FAILURES).value


def test_claim_has_the_content_of_the_template_and_is_controlled_by_the_pod() -> None:
    scene = Scene([pod(ephemeral(labels={"a": "b"}, annotations={"c": "d"}, finalizers=["ignored"]))])
    (created,) = bodies(scene.reconcile(), Create)
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "pod",
        "uid": "pod",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert created == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "pod-data",
            "namespace": "default",
            "labels": {"a": "b"},
            "annotations": {"c": "d"},
            "ownerReferences": [owner],
        },
        "spec": SPEC_OF_CLAIM,
    }
    assert scene.counts() == (1, 0)
    assert scene.reconcile().commands == []  # although the watch is late


@pytest.mark.parametrize(
    ("pods", "claims", "created"),
    [
        ([pod(ephemeral())], [], ["pod-data"]),
        ([], [], []),
        ([pod(ephemeral(), deletionTimestamp=LATER)], [], []),
        ([pod()], [], []),
        ([pod({"name": "data", "persistentVolumeClaim": {"claimName": "other"}})], [], []),
        ([pod(ephemeral())], [claim(namespace="elsewhere", owner="")], ["pod-data"]),
        ([pod(ephemeral())], [claim()], []),
        ([pod(ephemeral("a"), {"name": "b", "emptyDir": {}}, ephemeral("c"))], [claim("pod-a")], ["pod-c"]),
        ([pod(ephemeral("a"), ephemeral("c"))], [], ["pod-a", "pod-c"]),
    ],
)
def test_missing_claims_are_created(pods: list[Object], claims: list[Object], created: list[str]) -> None:
    scene = Scene(pods, claims)
    driven = scene.reconcile()
    assert [body["metadata"]["name"] for body in bodies(driven, Create)] == created
    assert driven.events == []
    assert scene.counts() == (len(created), 0)


@pytest.mark.parametrize(
    "foreign", [claim(owner=""), claim(owner="earlier pod with this name"), claim(controller=False)]
)
def test_claim_that_the_pod_does_not_control_stops_the_volumes_of_the_pod(foreign: Object) -> None:
    scene = Scene([pod(ephemeral(), ephemeral("other"))], [foreign])
    driven = scene.reconcile(raises=ForeignClaimError)
    text = "ephemeral volume data: PVC default/pod-data was not created for pod default/pod (pod is not owner)"
    assert driven.events == [("Warning", "FailedBinding", text)]
    assert driven.commands == []
    assert scene.counts() == (0, 0)


@pytest.mark.parametrize(
    ("outcome", "text", "counts"),
    [
        (Conflict("fake conflict", b'{"kind":"Status"}'), "fake conflict", (1, 1)),
        (Forbidden("exceeded quota: few", b'{"kind":"Status"}'), "exceeded quota: few", (1, 1)),
        (Unknown("timed out"), "timed out", (1, 1)),
        (Refused("not the leader"), None, (0, 0)),
    ],
)
def test_failed_creation_is_an_event_and_retried(outcome: Outcome, text: str | None, counts: tuple[int, int]) -> None:
    scene = Scene([pod(ephemeral("a"), ephemeral("b"))])
    driven = scene.reconcile(outcome=outcome, raises=CommandError)
    assert len(driven.commands) == 1
    assert driven.events == (
        [] if text is None else [("Warning", "FailedBinding", f"ephemeral volume a: create PVC pod-a: {text}")]
    )
    assert scene.counts() == counts


@pytest.mark.parametrize(
    ("live", "enqueued"),
    [
        (Done(encode_object(pod(ephemeral(), resourceVersion="900"))), [Enqueue("ephemeral_volume", "default/pod")]),
        (Done(encode_object(pod(ephemeral(), resourceVersion="900", deletionTimestamp=LATER))), []),
        (NotFound("no such pod"), []),
    ],
)
def test_claim_is_created_again_only_for_a_pod_that_the_server_has(live: Outcome, enqueued: list[Enqueue]) -> None:
    scene = Scene([pod(ephemeral())])
    running = scene.reconciler.check_pod("default/pod")
    driven = drive_steps(running, lambda _command: live, tables=scene.bench.tables)
    assert [type(command) for command in driven.commands] == [Get]
    assert driven.enqueued == enqueued


def change(obj: Object, type_: str) -> Change:
    meta = obj["metadata"]
    key = f"{meta['namespace']}/{meta['name']}"
    return Change(type=type_, key=key, raw=encode_object(obj), controller=None)


@pytest.mark.parametrize(
    ("there", "keys"),
    [
        (pod(ephemeral()), ["default/pod"]),
        (pod(ephemeral("other")), []),
        (pod(ephemeral(), deletionTimestamp=LATER), []),
        (pod({"name": "data", "persistentVolumeClaim": {"claimName": "pod-data"}}), []),
    ],
)
def test_deleted_claim_enqueues_the_pod_that_uses_it(there: Object, keys: list[str]) -> None:
    scene = Scene([there])
    assert list(pods_of_claim(change(claim(), "DELETED"), scene.bench.tables)) == keys


def test_pod_that_is_being_deleted_is_not_enqueued() -> None:
    scene = Scene([])
    assert list(existing_pod(change(pod(ephemeral()), "ADDED"), scene.bench.tables)) == ["default/pod"]
    going = pod(ephemeral(), deletionTimestamp=LATER)
    assert list(existing_pod(change(going, "ADDED"), scene.bench.tables)) == []


def test_claims_are_created_for_pods_of_a_cluster(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[SPEC])

    def created(name: str) -> object:
        return (cluster.get(PERSISTENT_VOLUME_CLAIMS, f"default/{name}") or {}).get("metadata", {}).get("uid")

    def made(name: str, *volumes: Object) -> Object:
        containers = [{"name": "main", "image": "i"}]
        return {"metadata": {"name": name}, "spec": {"containers": containers, "volumes": [*volumes]}}

    cluster.create(PODS, made("without", {"name": "data", "emptyDir": {}}))
    cluster.create(PODS, made("web", ephemeral()))
    assert cluster.run_until(lambda: created("web-data") is not None, within=5)
    first = created("web-data")
    cluster.delete(PERSISTENT_VOLUME_CLAIMS, "default/web-data")
    assert cluster.run_until(lambda: created("web-data") not in (None, first), within=5)
    cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "next-data"}, "spec": SPEC_OF_CLAIM})
    cluster.run_for(1.0)
    taken = created("next-data")
    cluster.create(PODS, made("next", ephemeral()))
    cluster.run_for(5.0)
    assert created("next-data") == taken
    cluster.delete(PERSISTENT_VOLUME_CLAIMS, "default/next-data")
    assert cluster.run_until(lambda: created("next-data") not in (None, taken), within=5)
    assert len(cluster.list(PERSISTENT_VOLUME_CLAIMS)) == 2
