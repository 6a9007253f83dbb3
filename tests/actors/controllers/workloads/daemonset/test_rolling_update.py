"""Replacement of old pods within the limits of the update strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcm.actors.controllers.workloads.daemonset.objects import GENERATION_LABEL, HASH_LABEL, Rolling, parse_daemon_set
from kcm.actors.controllers.workloads.daemonset.rolling_update import Limits, limits_of
from kcm.actors.reconciliation import RequeueAfter
from kcm.protocols.hashing import template_hash
from kcm.protocols.messages.commands import Command, Delete
from kcm.protocols.messages.outcomes import Outcome
from kcm.protocols.objects import Object, labels_of, name_of
from kcm.protocols.pods import pod_facts
from kcm.protocols.resources import CONTROLLER_REVISIONS, NODES, PODS
from tests.actors.controllers.workloads.daemonset.scene import (
    Scene,
    daemon_set,
    nodes,
    owned,
    ready,
    revision,
    template,
)

Build = Callable[..., Scene]


def rolled_out(scene: Build, count: int, **strategy: Any) -> Scene:
    """Return a scene in which all pods have the template v1 and are available."""
    env = scene(daemon_set(**strategy), nodes=nodes(count))
    assert env.counted() == (count, 0)
    env.make_ready()
    assert env.counted() == (0, 0)
    return env


@pytest.mark.parametrize(
    ("unavailable", "surge", "desired", "limits"),
    [
        (0, 0, 2, (1, 0)),
        ("50%", 0, 2, (1, 0)),
        ("50%", 0, 3, (2, 0)),
        (0, "50%", 2, (0, 1)),
        ("50%", 0, 0, (0, 0)),
        (0, 0, 0, (0, 0)),
        (3, 0, 1, (3, 0)),
    ],
)
def test_limits_round_up(unavailable: Any, surge: Any, desired: int, limits: tuple[int, int]) -> None:
    assert limits_of(Rolling(unavailable, surge), desired) == Limits(*limits)


def test_pods_are_deleted_up_to_max_unavailable(scene: Build) -> None:
    env = rolled_out(scene, 5, unavailable=2)
    env.change(image="v2", unavailable=2, generation=2)
    seen = []
    for _ in range(3):
        seen += [env.counted(), env.counted(), env.counted()]
        env.make_ready()
    assert seen == [(0, 2), (2, 0), (0, 0), (0, 2), (2, 0), (0, 0), (0, 1), (1, 0), (0, 0)]
    assert len(set(env.hashes())) == 1


def test_next_template_replaces_unavailable_pods_first(scene: Build) -> None:
    env = rolled_out(scene, 5, unavailable=2)
    env.change(image="v2", unavailable=2, generation=2)
    assert [env.counted(), env.counted()] == [(0, 2), (2, 0)]
    env.change(image="v3", unavailable=2, generation=3)
    assert [env.counted(), env.counted(), env.counted()] == [(0, 2), (2, 0), (0, 0)]


def test_unavailable_pods_are_deleted_beyond_the_limit(scene: Build) -> None:
    env = scene(daemon_set(unavailable=3), nodes=nodes(5))
    env.counted()
    env.change(image="v2", unavailable=3, generation=2)
    assert env.counted() == (0, 5)


@pytest.mark.parametrize(("most", "gone"), [(0, 10), (9, 10), (10, 10), (11, 11)])
def test_unavailable_pods_use_up_the_limit(scene: Build, most: int, gone: int) -> None:
    env = scene(daemon_set(unavailable=most), nodes=nodes(20))
    env.counted()
    env.make_ready()
    for pod in env.pods()[:10]:
        env.edit(pod, lambda obj: {**obj, "status": {"phase": "Running"}})
    env.change(image="v2", unavailable=most, generation=2)
    assert env.counted() == (0, gone)


def test_unavailable_old_pods_are_deleted_although_new_ones_use_up_the_limit(scene: Build) -> None:
    """15 of 20 pods are new and 5 old; only 3 old ones are available."""
    env = scene(daemon_set(), nodes=nodes(20))
    env.counted()
    old_labels = labels_of(env.pods()[0])
    env.change(image="v2", unavailable=3, generation=2)
    assert [env.counted(), env.counted()] == [(0, 20), (20, 0)]
    for pod in env.pods()[:5]:
        env.edit(pod, lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": old_labels}})
    for pod in env.pods()[:3]:
        env.edit(pod, lambda obj: ready(obj, "2026-01-01T00:00:00Z"))
    kept = [name_of(pod) for pod in env.pods()[:3]]
    assert [env.counted(), env.counted(), env.counted()] == [(0, 2), (2, 0), (0, 0)]
    assert [name_of(pod) for pod in env.pods() if labels_of(pod) == old_labels] == kept


def test_on_delete_strategy_deletes_nothing(scene: Build) -> None:
    strategy = {"updateStrategy": {"type": "OnDelete"}}
    env = rolled_out(scene, 3, **strategy)
    env.change(image="v2", generation=2, **strategy)
    assert env.counted() == (0, 0)
    assert env.status().get("updatedNumberScheduled", 0) == 0


def test_surge_creates_new_pods_before_old_ones_are_deleted(scene: Build) -> None:
    env = rolled_out(scene, 5, unavailable=0, surge=2)
    env.change(image="v2", unavailable=0, surge=2, generation=2)
    seen = [env.counted(), env.counted()]
    for _ in range(3):
        env.make_ready()
        seen += [env.counted(), env.counted()]
    assert seen == [(2, 0), (0, 0), (0, 2), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0)]
    assert len(set(env.hashes())) == 1


def test_surge_does_not_wait_for_unavailable_pods(scene: Build) -> None:
    env = scene(daemon_set(unavailable=0, surge=1), nodes=nodes(5))
    env.counted()
    env.change(image="v2", unavailable=0, surge=1, generation=2)
    assert env.counted() == (5, 0)
    assert env.counted() == (0, 5)


@pytest.mark.parametrize(("seconds", "gone"), [(10.0, 0), (20.0, 1)])
def test_old_pod_is_kept_until_the_new_one_is_available(scene: Build, seconds: float, gone: int) -> None:
    strategy = {"unavailable": 0, "surge": 1, "minReadySeconds": 15}
    env = rolled_out(scene, 1, **strategy)
    env.change(image="v2", generation=2, **strategy)
    assert env.counted() == (1, 0)
    env.make_ready(seconds_ago=seconds)
    assert env.counted() == (0, gone)


def test_set_is_requeued_until_a_ready_surge_pod_is_available(scene: Build) -> None:
    """The status counts the old pod, and reports no unavailable pod."""
    strategy = {"unavailable": 0, "surge": 1, "minReadySeconds": 15}
    env = rolled_out(scene, 1, **strategy)
    env.change(image="v2", generation=2, **strategy)
    env.counted()
    env.make_ready(seconds_ago=5.0)
    driven = env.sync()
    assert driven.result is not None
    assert driven.result.seconds == pytest.approx(10.0)


def test_set_is_synced_again_if_a_surging_pod_becomes_available_while_revisions_are_deleted(scene: Build) -> None:
    """The status counts the old pod, so that no write of it wakes the set."""
    strategy = {"unavailable": 0, "surge": 1, "minReadySeconds": 15, "revisionHistoryLimit": 0}
    env = rolled_out(scene, 1, **strategy)
    env.change(image="v2", generation=2, **strategy)
    env.counted()
    env.make_ready(seconds_ago=14.0)
    env.bench.show(CONTROLLER_REVISIONS, revision("old", 0, "v0", hash="old"))

    def answer(command: Command) -> Outcome:
        env.clock.advance(2.0)
        return env.bench.accept(command)

    driven = env.sync(answer)
    assert {command.resource for command in driven.of(Delete)} == {CONTROLLER_REVISIONS.id}
    assert driven.result == RequeueAfter(0.0)


def test_surge_deletes_pods_on_unsuitable_nodes_if_enough_are_available(scene: Build) -> None:
    strategy = {"unavailable": 0, "surge": 1}
    env = rolled_out(scene, 2, **strategy)
    taint = {"key": "gpu", "effect": "NoSchedule"}
    known = nodes(2)[0]
    env.bench.show(NODES, {**known, "spec": {"taints": [taint]}})
    env.change(image="v2", generation=2, **strategy)
    assert env.counted() == (1, 1)  # two are available, and one is wanted


@pytest.mark.parametrize(
    ("generation", "labels", "hash", "updated"),
    [
        ("1", {GENERATION_LABEL: "1"}, "x", True),
        ("1", {GENERATION_LABEL: "2"}, "x", False),
        ("1", {GENERATION_LABEL: "2", "controller-revision-hash": "x"}, "x", True),
        ("x", {GENERATION_LABEL: "x"}, "x", False),
        (None, {}, "x", False),
        (None, {"controller-revision-hash": "x"}, "x", True),
        (None, {"controller-revision-hash": ""}, "", False),
    ],
)
def test_pod_is_updated_by_hash_or_template_generation(
    generation: str | None, labels: Object, hash: str, updated: bool
) -> None:
    obj = daemon_set()
    obj["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": generation} if generation else {}
    facts = pod_facts(owned("a", "n0", labels=labels))
    assert parse_daemon_set(obj).is_updated(facts, hash) is updated


def test_node_with_two_equal_pods_is_not_updated_first(scene: Build) -> None:
    env = rolled_out(scene, 2, unavailable=1)
    env.bench.show(PODS, owned("zz", "n0"))
    env.change(image="v2", unavailable=1, generation=2)
    assert env.counted() == (0, 1)


PHASES = st.sampled_from(["Running", "Failed", "Succeeded"])
PODS_OF_A_NODE = st.lists(st.tuples(PHASES, st.booleans(), st.booleans()), max_size=3)  # phase, ready, outdated


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(there=st.lists(PODS_OF_A_NODE, min_size=3, max_size=3), limits=st.sampled_from([(1, 0), (2, 0), (0, 1), (0, 2)]))
def test_set_converges_from_any_pods_that_run_or_have_ended(scene: Build, there: list[Any], limits: Any) -> None:
    """Pods do not change by themselves, except that new ones become ready."""
    unavailable, surge = limits
    env = scene(daemon_set(unavailable=unavailable, surge=surge), nodes=nodes(3))
    hash = template_hash(template(), None)
    for node, pods in enumerate(there):
        for number, (phase, is_ready, outdated) in enumerate(pods):
            labels = {HASH_LABEL: "outdated" if outdated else hash}
            pod = owned(f"p{node}{number}", f"n{node}", phase=phase, labels=labels)
            made = ready(pod, "2026-01-01T00:00:00Z") if is_ready or phase == "Running" else pod
            env.bench.show(PODS, {**made, "status": {**made["status"], "phase": phase}})
    for _ in range(40):
        driven = env.sync()
        env.bench.catch_up()
        for command in driven.of(Delete):
            if env.tables[PODS].get(command.key) is not None:
                env.bench.hide(PODS, command.key)
        for pod in env.pods():
            if not pod.get("status"):
                env.edit(pod, lambda each: ready(each, "2026-01-01T00:00:00Z"))
        env.clock.advance(0.0 if driven.result is None else driven.result.seconds)
    running = [(pod["spec"]["nodeName"], pod["status"]["phase"]) for pod in env.pods()]
    assert sorted(running) == [(f"n{node}", "Running") for node in range(3)]
    assert set(env.hashes()) == {hash}
