"""Pods to create and delete, as nodes and pods change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kcm.actors.controllers.workloads.daemonset.objects import GENERATION_LABEL, HASH_LABEL
from kcm.actors.simulation.driver import bodies
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Patch, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Outcome, ServerFailure, Unknown
from kcm.protocols.objects import Object, annotations_of, controller_of, labels_of, name_of
from kcm.protocols.resources import DAEMONSETS, NODES, PODS
from tests.actors.controllers.workloads.daemonset.scene import Scene, daemon_set, node, nodes, owned, target

Build = Callable[..., Scene]
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
NO_SCHEDULE, NO_EXECUTE = {"key": "gpu", "effect": "NoSchedule"}, {"key": "gpu", "effect": "NoExecute"}
N0, SURGING = [node("n0")], {"unavailable": 0, "surge": 1}


def test_each_node_gets_a_pod(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(5))
    driven = env.sync()
    pods = [body for body in bodies(driven, Create) if body["kind"] == "Pod"]
    assert sorted(map(target, pods)) == ["n0", "n1", "n2", "n3", "n4"]
    [revision] = [body for body in bodies(driven, Create) if body["kind"] == "ControllerRevision"]
    hash = labels_of(revision)[HASH_LABEL]
    for pod in pods:
        assert labels_of(pod) == {"app": "agent", GENERATION_LABEL: "1", HASH_LABEL: hash}
        owner = controller_of(pod)
        assert owner is not None
        assert owner.uid == "uid-of-agent"
        assert len(pod["spec"]["tolerations"]) == 6
    assert annotations_of(revision) == annotations_of(daemon_set())
    assert env.status()["desiredNumberScheduled"] == env.status()["currentNumberScheduled"] == 5
    assert env.sync().commands == []


def test_node_affinity_requires_the_node_and_keeps_preferences(scene: Build) -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]
    kinds = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    affinity = {
        "nodeAffinity": {**kinds, "preferredDuringSchedulingIgnoredDuringExecution": preferred},
        "podAffinity": {},
    }
    env = scene(daemon_set(pod={"affinity": affinity}), nodes=[node("n0", disk="a"), node("n1")])
    env.sync()
    [pod] = env.pods()
    assert target(pod) == "n0"
    assert pod["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert pod["spec"]["affinity"]["podAffinity"] == {}


# the nodes, the pods, created, deleted
PLANS = {
    "nothing to do": (N0, [owned("a", "n0")], 0, 0),
    "one waits for its node": (N0, [owned("a", "n0", bound=False)], 0, 0),
    "one too many: the younger goes": (N0, [owned("a", "n0"), owned("b", "n0")], 0, 1),
    "one is going: none comes before it is gone": (N0, [owned("a", "n0", **GONE)], 0, 0),
    "one that has ended is going": (N0, [owned("a", "n0", phase="Failed", **GONE)], 1, 0),
    "a failed one": (N0, [owned("a", "n0", phase="Failed")], 0, 1),
    "two failed ones: one at a time": (N0, [owned(n, "n0", phase="Failed") for n in "ab"], 0, 1),
    "a failed one and three": (N0, [owned("f", "n0", phase="Failed"), *(owned(n, "n0") for n in "abc")], 0, 3),
    "a succeeded one": (N0, [owned("a", "n0", phase="Succeeded")], 0, 1),
    "NoSchedule: who is there stays": ([node("n0", taints=[NO_SCHEDULE])], [owned("a", "n0")], 0, 0),
    "NoSchedule: nobody comes": ([node("n0", taints=[NO_SCHEDULE])], [], 0, 0),
    "NoExecute: who is there goes": ([node("n0", taints=[NO_EXECUTE])], [owned("a", "n0")], 0, 1),
    "a node that is gone, for one that waits": ([], [owned("a", "n0", bound=False)], 0, 1),
    "a node that is gone, for one that ran there": ([], [owned("a", "n0")], 0, 0),
}


@pytest.mark.parametrize(("there", "pods", "created", "deleted"), PLANS.values(), ids=PLANS)
def test_pods_are_created_and_deleted_by_node(
    scene: Build, there: Sequence[Object], pods: list[Object], created: int, deleted: int
) -> None:
    strategy = {"updateStrategy": {"type": "OnDelete"}}
    assert scene(daemon_set(**strategy), nodes=there, pods=pods).counted() == (created, deleted)


def test_scheduled_pod_is_preferred_to_an_older_pending_one(scene: Build) -> None:
    waiting = owned("a", "n0", bound=False, creationTimestamp="2025-01-01T00:00:00Z")
    running = owned("b", "n0", creationTimestamp="2026-01-01T00:00:00Z")
    driven = scene(daemon_set(), nodes=N0, pods=[waiting, running]).sync()
    assert [command.key for command in driven.of(Delete)] == ["default/a"]


def test_failed_pods_are_deleted_with_backoff(scene: Build) -> None:
    env = scene(daemon_set(), nodes=N0)
    waits = []
    for _ in range(4):
        env.counted()
        env.fail(env.pods()[0])
        driven = env.sync()
        if not driven.of(Delete):
            assert driven.result is not None
            waits.append(driven.result.seconds)
            env.clock.advance(driven.result.seconds - 0.001)
            assert env.sync().of(Delete) == []
            env.clock.advance(0.001)
            driven = env.sync()
        [gone] = driven.of(Delete)
        name = gone.key.rpartition("/")[2]
        text = f"Found failed daemon pod default/{name} on node n0, will try to kill it"
        assert driven.events[0] == ("Warning", "FailedDaemonPod", text)
        env.bench.catch_up()
        env.bench.hide(PODS, gone.key)
    assert waits == pytest.approx([1.0, 2.0, 4.0])


def test_failed_pod_in_backoff_blocks_its_node_with_surge(scene: Build) -> None:
    env = scene(daemon_set(**SURGING), nodes=N0)
    env.counted()
    for _ in range(2):
        env.fail(env.pods()[0])
        if env.sync().of(Delete):
            env.bench.catch_up()
            env.bench.hide(PODS, f"default/{name_of(env.pods()[0])}")
            env.counted()
    assert [pod["status"]["phase"] for pod in env.pods()] == ["Failed"]


def test_deletion_of_succeeded_pod_has_an_event(scene: Build) -> None:
    driven = scene(daemon_set(), nodes=N0, pods=[owned("a", "n0", phase="Succeeded")]).sync()
    text = "Found succeeded daemon pod default/a on node n0, will try to delete it"
    assert driven.events[0] == ("Normal", "SucceededDaemonPod", text)


def test_surge_creates_a_pod_while_the_old_one_terminates(scene: Build) -> None:
    assert scene(daemon_set(**SURGING), nodes=N0, pods=[owned("a", "n0", **GONE)]).counted() == (1, 0)


def test_empty_selector_has_an_event(scene: Build) -> None:
    driven = scene(daemon_set(selector={}), nodes=N0).sync()
    text = "This daemon set is selecting all pods. A non-empty selector is required."
    assert (driven.commands, driven.events) == ([], [("Warning", "SelectingAll", text)])


def test_terminating_daemon_set_is_ignored(scene: Build) -> None:
    assert scene(daemon_set(meta=GONE), nodes=nodes(2), pods=[owned("a", "n7", bound=False)]).sync().commands == []


def test_matching_orphan_is_adopted_and_unmatched_pod_released(scene: Build) -> None:
    orphan = owned("a", "n0", ownerReferences=[])
    stranger = owned("b", "n1", labels={"app": "other"})
    driven = scene(daemon_set(), nodes=N0, pods=[orphan, stranger]).sync()
    assert [command.key for command in driven.of(Patch)] == ["default/a", "default/b"]


def test_sync_creates_and_deletes_at_most_a_burst(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(7), burst=3)
    assert [env.counted() for _ in range(4)] == [(3, 0), (3, 0), (1, 0), (0, 0)]


def refusing(env: Scene, allowed: int, outcome: Outcome) -> Callable[[Command], Outcome]:
    made = []

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create) and command.resource == PODS.id:
            made.append(command)
            if len(made) > allowed:
                return outcome
        return env.bench.accept(command)

    return answer


def test_failed_batch_is_the_last_and_the_status_is_written(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(100))
    driven = env.sync(refusing(env, 10, ServerFailure("no")), raises=CommandError)
    assert len([command for command in driven.of(Create) if command.resource == PODS.id]) == 15
    assert env.status()["currentNumberScheduled"] == 10


def test_creation_with_unknown_outcome_is_repeated_first(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))
    driven = env.sync(refusing(env, 0, Unknown("lost")), raises=CommandError)
    assert driven.of(Update) == []
    [lost] = [name_of(body) for body in bodies(driven, Create) if body["kind"] == "Pod"]
    env.bench.show(DAEMONSETS, daemon_set(meta={"annotations": {"changed": "yes"}}))
    [again] = [name_of(body) for body in bodies(env.sync(), Create) if body["kind"] == "Pod"]
    assert again == lost


def test_pod_with_existing_name_is_fetched_and_counted(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create) and command.resource == PODS.id:
            env.bench.accept(command)
            return AlreadyExists("there")
        return env.bench.accept(command)

    driven = env.sync(answer)
    assert driven.result is not None
    assert driven.result.seconds == 1.0


def test_name_is_not_reused_for_the_same_version_of_the_daemon_set(scene: Build) -> None:
    env = scene(daemon_set(**SURGING), nodes=nodes(1), pods=[])
    names = set()
    for _ in range(5):
        env.sync()
        [pod] = env.pods()
        names.add(name_of(pod))
        env.bench.catch_up()
        env.bench.hide(PODS, f"default/{name_of(pod)}")
    assert len(names) == 5


def test_pods_on_unreadable_node_are_kept(scene: Build) -> None:
    pods = [owned("a", "n0"), owned("b", "n1", bound=False)]
    env = scene(daemon_set(updateStrategy={"type": "OnDelete"}), nodes=N0, pods=pods)
    env.bench.spoil(NODES, "n1")
    assert env.sync().of(Delete) == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"template": "x"}, r"spec\.template is a map"),
        ({"selector": None}, r"spec\.selector is a map"),
        ({"selector": {"matchLabels": {"a": "b"}}}, r"does not match the labels"),
        ({"minReadySeconds": "1"}, r"spec\.minReadySeconds is a number"),
        ({"template": {"metadata": {"labels": "x"}}}, r"spec\.template\.metadata\.labels is a map"),
        ({"updateStrategy": {"type": 1}}, r"spec\.updateStrategy\.type is a string"),
        ({"status": {"collisionCount": "1"}}, r"status\.collisionCount is a number"),
        ({"updateStrategy": {"rollingUpdate": {"maxSurge": "x"}}}, r"neither an integer nor a percentage"),
    ],
)
def test_error_names_the_malformed_field(scene: Build, changes: Object, text: str) -> None:
    driven = scene(daemon_set(**changes), nodes=N0).sync(raises=ValueError)
    assert driven.commands == []
    with pytest.raises(ValueError, match=text):
        raise driven.error or AssertionError
