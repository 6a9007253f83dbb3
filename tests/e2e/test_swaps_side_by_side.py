"""Swaps between kube-controller-manager and kcm under load: no pod is lost, and no write is sent without the Lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.real_server import assets_or_skip
from tests.e2e.swap_rounds import (
    COMPLETIONS,
    OURS,
    REAL,
    PodLife,
    lost_addresses,
    play,
    pod_lives,
    sizes,
    unexplained,
    writer_of,
)

CYCLES = 5
# Seconds between two attempts of a standby, at most: the retry period with client-go's jitter factor of 1.2.
RETRY = 2.0 * 2.2
# The standby sees the last renewal one attempt late, and the expiry another one.
TAKEOVER = 15.0 + 2 * RETRY


def pod(name: str, kind: str, app: str, *, node: str = "", image: str = "web:0", deleting: bool = False) -> PodLife:
    return PodLife(name, owner=app, kind=kind, app=app, node=node, image=image, deleting=deleting)


def findings(*pods: PodLife, sizes: list[int] | None = None) -> list[str]:
    lives = {str(number): life for number, life in enumerate(pods)}
    return unexplained(lives, {life.owner: sizes or [] for life in pods})


def test_pods_of_a_replica_set_are_explained_by_its_sizes() -> None:
    alive, deleted = pod("a", "ReplicaSet", "web"), pod("b", "ReplicaSet", "web", deleting=True)
    assert not findings(alive, deleted, sizes=[2, 1])
    assert len(findings(alive, deleted, sizes=[2])) == 1, "a deletion without a decrease"
    assert len(findings(alive, alive, sizes=[1])) == 1, "a creation without an increase"


def test_successor_of_a_stateful_pod_is_explained_by_another_image() -> None:
    old = pod("db-0", "StatefulSet", "db", deleting=True)
    assert not findings(old, pod("db-0", "StatefulSet", "db", image="web:1"))
    assert len(findings(old, pod("db-0", "StatefulSet", "db"))) == 1
    assert len(findings(old)) == 1


def test_deleted_stateful_pod_is_explained_by_a_scale_down() -> None:
    def scaled(ordinal: int) -> PodLife:
        return pod(f"scaled-set-{ordinal}", "StatefulSet", "scaled-set", deleting=True)

    assert not findings(scaled(2))
    assert len(findings(scaled(1))) == 1


def test_successor_of_a_daemon_is_explained_by_another_image_on_the_same_node() -> None:
    old = pod("agent-a", "DaemonSet", "agent", node="n1", deleting=True)
    assert not findings(old, pod("agent-b", "DaemonSet", "agent", node="n1", image="web:1"))
    assert len(findings(old, pod("agent-b", "DaemonSet", "agent", node="n2", image="web:1"))) == 1


def test_surplus_pods_of_jobs_restarts_and_failures_are_found() -> None:
    done = [pod(str(number), "Job", "job", deleting=True) for number in range(COMPLETIONS)]
    assert not findings(*done)
    assert len(findings(*done, pod("more", "Job", "job"))) == 1
    restarted, failed = pod("a", "ReplicaSet", "web"), pod("b", "ReplicaSet", "web")
    restarted.restarts, failed.failed = 1, True
    assert len(findings(restarted, failed, sizes=[2])) == 2


def test_pods_and_sizes_are_read_from_watch_events() -> None:
    meta = {"name": "a", "uid": "1", "ownerReferences": [{"controller": True, "uid": "rs", "kind": "ReplicaSet"}]}
    spec = {"containers": [{"image": "web:1"}]}
    running = {"phase": "Running", "containerStatuses": [{"restartCount": 2}]}
    events: list[tuple[str, dict[str, Any]]] = [
        ("ADDED", {"metadata": meta, "spec": spec}),
        ("MODIFIED", {"metadata": meta, "spec": {**spec, "nodeName": "n"}, "status": running}),
        ("DELETED", {"metadata": meta, "spec": {**spec, "nodeName": "n"}, "status": {"phase": "Failed"}}),
    ]
    assert pod_lives(events) == {
        "1": PodLife("a", "rs", "ReplicaSet", "", "n", "web:1", deleting=True, restarts=2, failed=True)
    }
    deleting = {**meta, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    events = [events[0], ("MODIFIED", {"metadata": deleting, "spec": spec, "status": {"phase": "Failed"}})]
    assert not pod_lives(events)["1"].failed, "it was deleted before it started"
    changes = [("ADDED", 2), ("MODIFIED", 2), ("MODIFIED", 5), ("DELETED", 0)]
    assert sizes((kind, {"metadata": {"uid": "x"}, "spec": {"replicas": size}}) for kind, size in changes) == {
        "x": [2, 5]
    }


def test_ready_address_that_leaves_a_slice_is_found() -> None:
    def slice_(*ready: bool) -> dict[str, Any]:
        endpoints = [
            {"addresses": [f"10.0.0.{number}"], "conditions": {"ready": is_}} for number, is_ in enumerate(ready)
        ]
        return {
            "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": endpoints,
        }

    assert not lost_addresses([("ADDED", slice_(True)), ("MODIFIED", slice_(True, True))], "web")
    assert len(lost_addresses([("ADDED", slice_(True)), ("MODIFIED", slice_(False))], "web")) == 1
    assert len(lost_addresses([("ADDED", slice_(True)), ("DELETED", slice_(True))], "web")) == 1


def test_writer_is_identified_by_its_user_agent() -> None:
    def event(agent: str, resource: str = "pods") -> dict[str, Any]:
        return {"userAgent": agent, "objectRef": {"resource": resource}}

    ours = "kube-controller-manager/v1.36.2+kcm.0.2.0 (linux/amd64) kubernetes/kcm-0.2.0/job-controller"
    theirs = "kube-controller-manager/v1.36.2 (linux/amd64) kubernetes/0123abc/system:serviceaccount:kube-system:x"
    assert [writer_of(event(ours)), writer_of(event(theirs)), writer_of(event("kubectl/v1"))] == [OURS, REAL, None]
    assert writer_of(event(ours, "subjectaccessreviews")) is None


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_swaps_lose_no_pod_and_send_no_write_without_the_lease(tmp_path: Path) -> None:
    assets = assets_or_skip()
    if not (assets / REAL).exists():
        pytest.skip("there is no kube-controller-manager in KUBEBUILDER_ASSETS")
    result = play(tmp_path, assets, cycles=CYCLES, say=print)
    assert len(result.swaps) == 2 * CYCLES
    assert result.verdict.writes > 1000
    assert result.unexplained == []
    assert result.addresses == []
    assert result.taints == []
    assert result.verdict.deposed == []
    assert result.verdict.expired == []
    for swap in result.swaps:
        # kube-controller-manager releases the Lease on SIGTERM only behind a feature gate.
        released = (swap.old, swap.ending) == (OURS, "stop")
        assert swap.leading <= (2.0 + RETRY if released else TAKEOVER), swap
        assert swap.exited <= 5.0, swap
