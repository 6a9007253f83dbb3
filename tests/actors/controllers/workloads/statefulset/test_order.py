"""Order of creations and deletions of pods, with upstream's cases."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.actors.controllers.workloads.statefulset.concurrent_steps import run_with_slow_start
from kcm.actors.reconciliation import RequeueAfter, get_live, perform
from kcm.actors.simulation.driver import NOW, Bench, created_names, deleted_keys, drive_steps
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Delete
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Forbidden, NotFound, Outcome
from kcm.protocols.resources import PODS, STATEFULSETS
from tests.actors.controllers.workloads.statefulset.scenes import (
    DELETING,
    KEY,
    Scene,
    a_claim,
    a_set,
    called,
    made,
    member,
    revision,
    status_written,
    young,
)

TERMINATING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}


def going(ordinal: int, **options: Any) -> Any:
    return member(ordinal, metadata=TERMINATING, **options)


@pytest.mark.parametrize(
    ("pods", "created"),
    [
        ([], ["web-0"]),
        ([member(0)], ["web-1"]),
        ([member(0, ready=False)], []),
        ([member(0, phase="Pending", ready=False)], []),
        ([going(0)], []),
        ([member(0), member(1)], ["web-2"]),
        ([member(0), member(2)], ["web-1"]),
        ([member(0), member(1, ready=False)], []),
        ([member(0), member(1), member(2)], []),
    ],
)
def test_ordered_pod_is_created_when_its_predecessors_are_ready(pods: list[Any], created: list[str]) -> None:
    assert made(Scene(a_set(3), *pods).sync()) == created


def test_parallel_pods_are_created_in_growing_batches() -> None:
    driven = Scene(a_set(7, parallel=True), member(3, ready=False)).sync()
    batches = [[c for c in batch if isinstance(c, Create)] for batch in driven.batches]
    assert [len(batch) for batch in batches if batch] == [1, 2, 3]
    assert made(driven) == ["web-0", "web-1", "web-2", "web-4", "web-5", "web-6"]
    assert (status_written(driven) or {})["replicas"] == 7


def test_no_batch_is_larger_than_500() -> None:
    bench = Bench({PODS: []})
    steps = (perform(get_live(PODS, "default/web-0")) for _ in range(1100))
    driven = drive_steps(run_with_slow_start(steps), bench.accept, tables=bench.tables)
    assert [len(batch) for batch in driven.batches] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 89]


def test_thousand_parallel_pods_are_created_in_two_syncs() -> None:
    scene = Scene(a_set(1000, parallel=True))
    first = scene.sync()
    assert len(made(first)) == 500
    scene.bench.catch_up()
    assert len(made(scene.sync())) == 500


def test_no_parallel_batch_follows_a_failed_one() -> None:
    scene = Scene(a_set(7, parallel=True))
    tried = []

    def answer(command: Any) -> Outcome:
        if isinstance(command, Create) and command.resource == PODS.id:
            tried.append(command)
            if len(tried) == 2:
                return Forbidden('pods "web-1" is forbidden: exceeded quota: q')
        return scene.bench.accept(command)

    driven = scene.sync(answer, raises=CommandError)
    assert len(tried) == 3
    why = 'Create Pod web-1 in StatefulSet web failed error: pods "web-1" is forbidden: exceeded quota: q'
    assert ("Warning", "FailedCreate", why) in driven.events
    assert (status_written(driven) or {})["replicas"] == 2


@pytest.mark.parametrize(
    ("pods", "deleted"),
    [
        ([member(0), member(1), member(2), member(3)], ["default/web-3"]),
        ([member(0), member(1), member(2), going(3)], []),
        ([member(0), member(1), member(2, ready=False), member(3, ready=False)], []),
        ([member(0), member(1), member(2), member(3, ready=False)], ["default/web-3"]),
        ([member(0), member(1), member(2, ready=False), member(3)], ["default/web-3"]),
        ([member(0), member(1, ready=False), member(2), member(3)], []),
        ([member(0), member(2)], []),
    ],
)
def test_last_ordered_pod_is_deleted_first_when_all_others_are_ready(pods: list[Any], deleted: list[str]) -> None:
    assert deleted_keys(Scene(a_set(2), *pods).sync()) == deleted


@pytest.mark.parametrize("ready", [True, False])  # True: another client has set the phase
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("running", [1, 2, 3])
def test_condemned_pods_that_have_ended_are_deleted_one_by_one(running: int, phase: str, ready: bool) -> None:
    pods = [member(i, **({} if i < running else {"phase": phase, "ready": ready})) for i in range(4)]
    scene = Scene(a_set(1), *pods)
    deleted = []
    for _ in range(3):
        deleted += deleted_keys(scene.sync())
        scene.bench.catch_up()
    assert deleted == ["default/web-3", "default/web-2", "default/web-1"]


# Pods that do not change by themselves. Terminated pods may keep a condition Ready that another client left True.
STATES = st.sampled_from(
    [None, {}, *({"phase": phase, "ready": ready} for phase in ("Failed", "Succeeded") for ready in (True, False))]
)


@settings(deadline=None, max_examples=200)
@given(
    states=st.lists(STATES, min_size=5, max_size=5),
    replicas=st.integers(0, 3),
    start=st.integers(0, 2),
    parallel=st.booleans(),
)
def test_set_converges_from_any_pods_that_run_or_have_ended(
    states: list[Any], replicas: int, start: int, parallel: bool
) -> None:
    pods = [member(ordinal, **state) for ordinal, state in enumerate(states) if state is not None]
    scene = Scene(a_set(replicas, parallel=parallel, ordinals={"start": start}), *pods)
    for _ in range(20):
        driven = scene.sync()
        scene.bench.catch_up()
        for key in deleted_keys(driven):
            if scene.bench.tables[PODS].get(key) is not None:
                scene.bench.hide(PODS, key)
        for name in created_names(driven):
            scene.bench.show(PODS, member(int(name.rpartition("-")[2])))
        scene.bench.clock.advance(0.0 if driven.result is None else driven.result.seconds)
    wanted = [f"default/web-{ordinal}" for ordinal in range(start, start + replicas)]
    assert sorted(entry.key for entry in scene.bench.tables[PODS].entries()) == wanted


def test_condemned_pod_with_unknown_phase_is_deleted_though_its_ready_condition_is_true() -> None:
    scene = Scene(a_set(2), member(0), member(1), member(2, phase="Unknown"))
    assert deleted_keys(scene.sync()) == ["default/web-2"]


def test_ended_condemned_pod_waits_for_replicas_that_are_not_ready() -> None:
    scene = Scene(a_set(2), member(0), member(1, ready=False), member(2, phase="Failed"))
    assert deleted_keys(scene.sync()) == []


def test_set_is_synced_again_if_a_pod_becomes_available_while_claims_are_written() -> None:
    """A manager with a fast clock wrote the status before: no event of it enqueues the set."""
    retention = {"whenDeleted": "Delete"}
    status = {
        "observedGeneration": 1,
        "replicas": 2,
        "readyReplicas": 2,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "availableReplicas": 2,
        "currentRevision": called(),
        "updateRevision": called(),
        "collisionCount": 0,
    }
    obj = a_set(
        2,
        claims=["data"],
        status=status,
        minReadySeconds=30,
        persistentVolumeClaimRetentionPolicy=retention,
    )
    pods = [member(0, claims=["data"]), young(1, 29.0, claims=["data"])]
    scene = Scene(obj, *pods, claims=[a_claim("data-web-0"), a_claim("data-web-1")])

    def answer(command: Any) -> Outcome:
        scene.bench.clock.advance(2.0)
        return scene.bench.accept(command)

    driven = scene.sync(answer)
    assert driven.result == RequeueAfter(0.0)
    scene.bench.catch_up()
    assert len(scene.sync().commands) > 0


def test_parallel_surplus_pods_are_deleted_at_once() -> None:
    driven = Scene(a_set(1, parallel=True), *(member(i, ready=False) for i in range(4))).sync()
    assert sorted(deleted_keys(driven)) == ["default/web-1", "default/web-2", "default/web-3"]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_terminated_pod_is_deleted_and_recreated(phase: str, parallel: bool) -> None:
    scene = Scene(a_set(1, parallel=parallel), member(0, phase=phase, ready=False))
    assert deleted_keys(scene.sync()) == ["default/web-0"]
    scene.bench.catch_up()
    assert made(scene.sync()) == ["web-0"]


def test_pod_that_terminates_at_once_is_replaced_with_backoff() -> None:
    scene = Scene(a_set(1))
    waits = []
    for _ in range(3):
        created = scene.bench.clock.now()
        scene.bench.show(PODS, member(0, phase="Failed", ready=False, created=created))
        scene.sync()
        scene.bench.hide(PODS, "default/web-0")
        held = scene.sync()
        assert made(held) == []
        assert held.result is not None
        waits.append(held.result.seconds)
        scene.bench.clock.advance(held.result.seconds)
        assert made(scene.sync()) == ["web-0"]
    assert waits == [1.0, 2.0, 4.0]


def test_parallel_pods_do_not_wait_for_one_in_backoff() -> None:
    scene = Scene(a_set(3, parallel=True), member(0, phase="Failed", ready=False, created=NOW))
    assert made(scene.sync()) == ["web-1", "web-2"]
    scene.bench.catch_up()
    held = scene.sync()
    assert (made(held), held.result) == ([], RequeueAfter(1.0))


def test_parallel_pods_do_not_wait_for_pending_ones() -> None:
    pending = [member(i, phase="Pending", ready=False) for i in range(600)]
    assert made(Scene(a_set(602, parallel=True), *pending).sync()) == ["web-600", "web-601"]


def test_terminated_pod_that_is_being_deleted_delays_its_replacement() -> None:
    driven = Scene(a_set(2), going(0, phase="Failed", ready=False)).sync()
    assert not deleted_keys(driven)
    assert not made(driven)


def test_ordinals_begin_at_spec_ordinals_start() -> None:
    pods = [member(0), member(1), *(member(i) for i in (2, 3, 4))]
    driven = Scene(a_set(3, ordinals={"start": 2}), *pods).sync()
    assert deleted_keys(driven) == ["default/web-1"]
    assert made(Scene(a_set(3, ordinals={"start": 2}), member(2)).sync()) == ["web-3"]


@pytest.mark.parametrize("parallel", [False, True])
def test_terminating_set_creates_nothing_and_updates_its_status(parallel: bool) -> None:
    driven = Scene(a_set(3, parallel=parallel, meta=DELETING), member(0)).sync()
    assert not made(driven)
    assert not deleted_keys(driven)
    assert (status_written(driven) or {})["replicas"] == 1


def test_deleted_set_is_ignored() -> None:
    assert Scene(None).sync().commands == []


# minReadySeconds


@pytest.mark.parametrize(("seconds", "created"), [(10.0, []), (60.0, ["web-1"])])
def test_pod_is_created_when_its_predecessor_is_available(seconds: float, created: list[str]) -> None:
    driven = Scene(a_set(2, minReadySeconds=30), young(0, seconds)).sync()
    assert made(driven) == created
    status = status_written(driven) or {}
    assert (status["readyReplicas"], status["availableReplicas"]) == (1, int(seconds == 60.0))
    assert driven.result == (None if created else RequeueAfter(20.0))


@pytest.mark.parametrize(("seconds", "deleted"), [(10.0, []), (60.0, ["default/web-1"])])
def test_scaling_down_waits_for_availability_of_remaining_pods(seconds: float, deleted: list[str]) -> None:
    driven = Scene(a_set(1, minReadySeconds=30), young(0, seconds), member(1)).sync()
    assert deleted_keys(driven) == deleted


# Failures


def test_existing_name_is_retried_without_an_event() -> None:
    scene = Scene(a_set(1))

    def answer(command: Any) -> Outcome:
        is_pod = isinstance(command, Create) and command.resource == PODS.id
        return AlreadyExists('pods "web-0" already exists') if is_pod else scene.bench.accept(command)

    assert scene.sync(answer, raises=CommandError).events == []


def test_deletion_of_missing_pod_is_not_a_failure() -> None:
    scene = Scene(a_set(0), member(0))
    driven = scene.sync(lambda c: NotFound() if isinstance(c, Delete) else scene.bench.accept(c))
    assert driven.events == [("Normal", "SuccessfulDelete", "Delete Pod web-0 in StatefulSet web successful")]


def test_conflicting_deletion_is_retried_without_an_event() -> None:
    """Seed 91004302 of swarm: no watch event followed, and a rolling update did not continue."""
    scene = Scene(a_set(0), member(0))
    driven = scene.sync(lambda c: Conflict() if isinstance(c, Delete) else scene.bench.accept(c), raises=CommandError)
    assert driven.events == []


def test_failed_deletion_has_an_event_and_is_retried() -> None:
    scene = Scene(a_set(0), member(0))
    driven = scene.sync(
        lambda c: Forbidden("no") if isinstance(c, Delete) else scene.bench.accept(c), raises=CommandError
    )
    assert driven.events == [("Warning", "FailedDelete", "Delete Pod web-0 in StatefulSet web failed error: no")]


def test_deletion_has_uid_and_depends_on_fresh_tables() -> None:
    (command,) = Scene(a_set(0), member(0)).sync().of(Delete)
    assert command.uid == "uid-of-web-0"
    assert command.depends_on == (PODS.id, f"{STATEFULSETS.id} {KEY}")


def test_nothing_is_created_or_deleted_while_a_pod_is_unreadable() -> None:
    scene = Scene(a_set(3), member(1))
    scene.bench.spoil(PODS, "default/web-0")
    driven = scene.sync()
    assert driven.commands == []
    assert driven.result == RequeueAfter(10.0)


@pytest.mark.parametrize("parallel", [False, True])
def test_end_state_is_the_same_after_a_crash_between_any_two_writes(parallel: bool) -> None:
    def end(stop_after: int | None) -> list[str]:
        scene = Scene(a_set(3, parallel=parallel, claims=["data"]), member(0, claims=["data"]), revisions=[])
        if stop_after is not None:
            scene.sync(stop_after=stop_after)
            scene.restart()
        for _ in range(4):
            scene.sync(raises=None)
            scene.bench.catch_up()
        return sorted(pod["metadata"]["name"] for pod in scene.bench.tables[PODS].objects())

    whole = end(None)
    assert whole == (["web-0", "web-1", "web-2"] if parallel else ["web-0", "web-1"])
    assert all(end(stop_after) == whole for stop_after in range(1, 6))


# Ownership of pods


def test_orphan_with_a_name_of_the_set_is_adopted() -> None:
    orphans = [member(1, owner=None), member("01", owner=None), member("x", owner=None)]
    foreign = member(2, owner=None, labels={"app": "other"})
    driven = Scene(a_set(3), member(0), *orphans, foreign).sync()
    patched = [command.key for command in driven.commands if type(command).__name__ == "Patch"]
    assert patched == ["default/web-1"]


def test_pod_with_other_labels_or_name_is_released() -> None:
    driven = Scene(a_set(1), member(0), member("x"), member(1, labels={"app": "other"})).sync()
    patched = [command.key for command in driven.commands if type(command).__name__ == "Patch"]
    assert sorted(patched) == ["default/web-1", "default/web-x"]
    assert deleted_keys(driven) == []


# Updates


def updated(*pods: Any, image: str = "v2", **options: Any) -> Scene:
    several = options.pop("several_unavailable", False)
    status = {"replicas": 3, "availableReplicas": 3, "currentRevision": called("v1"), "updateRevision": called("v1")}
    obj = a_set(len(pods) or 3, image=image, status=status, **options)
    known = [revision("v1", 1), revision("v2", 2)]
    return Scene(obj, *pods, revisions=known, several_unavailable=several)


def partition(number: int, **more: Any) -> Any:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": number, **more}}


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize(
    ("images", "strategy", "deleted"),
    [
        ("111", partition(0), ["default/web-2"]),
        ("112", partition(0), ["default/web-1"]),
        ("122", partition(0), ["default/web-0"]),
        ("222", partition(0), []),
        ("111", partition(2), ["default/web-2"]),
        ("112", partition(2), []),
        ("111", partition(7), []),
        ("111", {"type": "RollingUpdate"}, ["default/web-2"]),
        ("111", {"type": "OnDelete"}, []),
        ("211", partition(0), ["default/web-2"]),
    ],
)
def test_update_proceeds_from_the_highest_ordinal_to_the_partition(
    images: str, strategy: Any, deleted: list[str], parallel: bool
) -> None:
    pods = [member(i, image=f"v{image}") for i, image in enumerate(images)]
    assert deleted_keys(updated(*pods, updateStrategy=strategy, parallel=parallel).sync()) == deleted


def test_parallel_update_waits_for_higher_ordinals() -> None:
    pods = [member(0), member(1), member(2, image="v2", ready=False)]
    assert deleted_keys(updated(*pods, parallel=True).sync()) == []
    broken_and_old = [member(0), member(1), member(2, ready=False)]
    assert deleted_keys(updated(*broken_and_old, parallel=True).sync()) == ["default/web-2"]


def test_ordered_update_waits_for_a_pod_that_never_becomes_ready() -> None:
    """Upstream documents this: a user must delete the broken pod."""
    scene = updated(member(0), member(1), member(2, image="v2", ready=False), image="v1")
    assert deleted_keys(scene.sync()) == []


def test_pod_below_the_partition_is_recreated_with_its_old_revision() -> None:
    def revision_of_new(ordinals: list[int], strategy: Any, current_replicas: int = 0) -> str:
        status = {
            "replicas": 2,
            "availableReplicas": 2,
            "currentRevision": called("v1"),
            "currentReplicas": current_replicas,
        }
        pods = [member(i) for i in ordinals]
        obj = a_set(3, image="v2", status=status, updateStrategy=strategy)
        driven = Scene(obj, *pods, revisions=[revision("v1", 1), revision("v2", 2)]).sync()
        (command,) = [c for c in driven.of(Create) if c.resource == PODS.id]
        return "v1" if called("v1").encode() in command.body else "v2"

    assert revision_of_new([], partition(1)) == "v1"
    assert revision_of_new([0], partition(1)) == "v2"
    assert revision_of_new([0], {"type": "RollingUpdate"}, current_replicas=2) == "v1"
    assert revision_of_new([0], {"type": "RollingUpdate"}, current_replicas=1) == "v2"
    assert revision_of_new([0], {"type": "OnDelete"}, current_replicas=3) == "v2"


@pytest.mark.parametrize(
    ("pods", "deleted"),
    [
        ([member(i) for i in range(6)], ["default/web-4", "default/web-5"]),
        ([*(member(i) for i in range(5)), going(5)], ["default/web-4"]),
        ([going(0), *(member(i) for i in range(1, 6))], ["default/web-5"]),
        ([going(0), going(1), *(member(i) for i in range(2, 6))], []),
        ([*(member(i) for i in range(4)), member(4, image="v2"), member(5, image="v2")], ["default/web-3"]),
    ],
)
def test_max_unavailable_is_respected_with_the_gate(pods: list[Any], deleted: list[str]) -> None:
    scene = updated(*pods, parallel=True, updateStrategy=partition(3, maxUnavailable=2), several_unavailable=True)
    assert sorted(deleted_keys(scene.sync())) == deleted
    without = updated(*pods, parallel=True, updateStrategy=partition(3, maxUnavailable=2))
    assert len(deleted_keys(without.sync())) <= 1


@pytest.mark.parametrize("seconds", [10.0, 60.0])
def test_update_waits_for_availability_of_higher_ordinals(seconds: float) -> None:
    pods = [member(0), young(1, seconds, image="v2")]
    driven = updated(*pods, minReadySeconds=30, parallel=True).sync()
    assert deleted_keys(driven) == ([] if seconds == 10.0 else ["default/web-0"])


def test_created_names_contain_only_pods() -> None:
    assert created_names(Scene(a_set(1)).sync()) == ["web-0"]
