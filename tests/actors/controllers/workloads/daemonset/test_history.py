"""ControllerRevisions are created, found, merged, renumbered and deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.controllers.workloads.daemonset.objects import HASH_LABEL
from kcm.actors.controllers.workloads.daemonset.spec import SPEC
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.hashing import template_hash
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, Done, NotFound, Outcome
from kcm.protocols.objects import Object, decode_object, encode_object, labels_of, name_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, DAEMONSETS, PODS
from tests.actors.controllers.workloads.daemonset.scene import Scene, daemon_set, nodes, owned, revision, template

Build = Callable[..., Scene]
NAME = f"agent-{template_hash(template(), None)}"


def test_template_is_recorded_under_its_hash(scene: Build) -> None:
    env = scene(daemon_set())
    env.sync()
    assert env.revisions() == [(NAME, 1)]
    assert env.sync().commands == []


def test_new_template_gets_the_next_number(scene: Build) -> None:
    env = scene(daemon_set("v3"), revisions=[revision("a", 4), revision("b", 2, "v2")])
    env.sync()
    assert [number for _, number in env.revisions()] == [2, 4, 5]


def test_reverted_template_gets_the_newest_number(scene: Build) -> None:
    env = scene(daemon_set(), revisions=[revision("a", 1), revision("b", 2, "v2")])
    env.sync()
    assert env.revisions() == [("b", 2), ("a", 3)]


def test_omitted_empty_fields_create_no_revision(scene: Build) -> None:
    env = scene(daemon_set())
    env.sync()
    env.bench.catch_up()
    env.change(pod={"nodeSelector": {}})
    env.sync()
    assert env.revisions() == [(NAME, 1)]


def test_revision_without_hash_is_labelled_with_its_name(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1), revisions=[revision("a", 1, hash=None)])
    env.sync()
    assert labels_of(env.tables[CONTROLLER_REVISIONS].get("default/a"))[HASH_LABEL] == "a"
    assert env.hashes() == ["a"]


def test_newest_of_equal_revisions_is_kept_and_relabels_pods(scene: Build) -> None:
    pods = [owned(name, f"n{i}", labels={HASH_LABEL: name}) for i, name in enumerate("abc")]
    env = scene(
        daemon_set(updateStrategy={"type": "OnDelete"}),
        nodes=nodes(3),
        pods=pods,
        revisions=[revision("a", 1), revision("b", 2), revision("c", 1, "v2")],
    )
    driven = env.sync()
    assert [command.key for command in driven.of(Patch)] == ["default/a"]
    assert [command.key for command in driven.of(Delete)] == ["default/a"]
    assert env.hashes() == ["b", "b", "c"]  # the pod of another template keeps its hash


@pytest.mark.parametrize(("limit", "gone"), [(10, []), (2, ["a"]), (1, ["a", "c"]), (0, ["a", "c"])])
def test_old_revisions_without_pods_are_deleted(scene: Build, limit: int, gone: list[str]) -> None:
    old = [revision(name, number, f"old{number}") for number, name in enumerate("abc", 1)]
    env = scene(
        daemon_set(updateStrategy={"type": "OnDelete"}, revisionHistoryLimit=limit),
        nodes=nodes(1),
        pods=[owned("p", "n0", labels={HASH_LABEL: "b"})],
        revisions=[*old, revision("now", 4)],
    )
    assert [command.key for command in env.sync().of(Delete)] == [f"default/{name}" for name in gone]


@pytest.mark.parametrize(("outcome", "raises"), [(NotFound(), None), (Conflict(), CommandError)])
def test_failed_deletion_of_a_revision_is_retried(
    scene: Build, outcome: Outcome, raises: type[Exception] | None
) -> None:
    env = scene(
        daemon_set(revisionHistoryLimit=0), nodes=nodes(0), revisions=[revision("a", 1, "old"), revision("now", 2)]
    )
    driven = env.sync(lambda c: outcome if isinstance(c, Delete) else env.bench.accept(c), raises=raises)
    assert [command.key for command in driven.of(Delete)] == ["default/a"]


def answering(env: Scene, existing: Object, live: Object | None = None) -> Callable[[Command], Outcome]:
    """Return an answer of a server that has this revision under the requested name."""

    def answer(command: Command) -> Outcome:
        match command:
            case Create(CONTROLLER_REVISIONS.id):
                return AlreadyExists("it is there")
            case Get(CONTROLLER_REVISIONS.id):
                return Done(encode_object(existing))
            case Get(DAEMONSETS.id) if live is not None:
                return Done(encode_object(live))
        return env.bench.accept(command)

    return answer


def with_version(obj: Object) -> Object:
    return {**obj, "metadata": {"resourceVersion": "150", "uid": "u", **obj["metadata"]}}


def test_existing_revision_is_found(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))
    driven = env.sync(answering(env, with_version(revision(NAME, 1, hash="h"))))
    assert (env.hashes(), driven.result) == (["h"], None)


def test_revision_of_previous_owner_is_used_and_retried(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))
    driven = env.sync(answering(env, with_version(revision(NAME, 1, hash="h", uid="other"))))
    assert env.hashes() == ["h"]
    assert driven.result is not None
    assert driven.result.seconds == 5.0


@pytest.mark.parametrize(("count", "counted"), [(None, 1), (1, 2)])
def test_collision_is_counted_and_changes_the_name(scene: Build, count: int | None, counted: int) -> None:
    status: Any = {} if count is None else {"collisionCount": count}
    env = scene(daemon_set(status=status), nodes=nodes(1))
    driven = env.sync(answering(env, with_version(revision(NAME, 1, "v9"))), raises=CommandError)
    [put] = driven.of(Update)
    assert decode_object(put.body)["status"] == {"collisionCount": counted}
    env.sync()
    assert env.revisions()[-1] == (f"agent-{template_hash(template(), counted)}", 2)


def test_stale_collision_count_is_not_increased(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))
    live = with_version(daemon_set(status={"collisionCount": 3}))
    driven = env.sync(answering(env, with_version(revision(NAME, 1, "v9")), live), raises=ValueError)
    assert driven.of(Update) == []
    assert "found a stale collision count (None, expected 3)" in str(driven.error)


def test_pods_are_kept_while_the_history_is_unknown(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))
    env.bench.spoil(CONTROLLER_REVISIONS, "default/x")
    driven = env.sync(raises=RuntimeError)
    assert [command for command in driven.of(Create) if command.resource == PODS.id] == []


@pytest.mark.parametrize(("length", "pods"), [(223, 1), (224, 1), (242, 1), (253, 0)])
def test_revision_has_the_whole_name_of_its_daemon_set(cluster: SimulatedCluster, length: int, pods: int) -> None:
    cluster.hollow_nodes(nodes=1, zones=1)
    cluster.manager(controllers=[SPEC])
    long = daemon_set()
    long = {**long, "metadata": {"name": "a" * length, "namespace": "default"}}
    cluster.create(DAEMONSETS, long)
    cluster.run_for(30.0)
    # The longest name has no revision, as upstream: the name of the revision would be too long.
    names = [name_of(found) for found in cluster.list(CONTROLLER_REVISIONS)]
    assert [name.rpartition("-")[0] for name in names] == ["a" * length] * pods
    assert len(cluster.list(PODS)) == pods
