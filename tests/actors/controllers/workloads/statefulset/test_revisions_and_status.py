"""Revisions that are found, created, renumbered and deleted; and the status."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.workloads.statefulset.metrics import MAX_UNAVAILABLE, UNAVAILABLE
from kcm.actors.simulation.driver import bodies, deleted_keys
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Delete, Update
from kcm.protocols.messages.outcomes import Conflict, NotFound, Outcome
from kcm.protocols.objects import name_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, STATEFULSETS
from tests.actors.controllers.workloads.statefulset.scenes import (
    Scene,
    a_set,
    called,
    member,
    read,
    revision,
    status_written,
)

LABELS = ("default", "web", "OrderedReady")


def created(driven: Any) -> list[Any]:
    commands = [c for c in driven.of(Create) if c.resource == CONTROLLER_REVISIONS.id]
    return [body for body in bodies(driven, Create) if body["kind"] == "ControllerRevision"] if commands else []


def raised(driven: Any) -> list[tuple[str, int]]:
    return [
        (name_of(body), body["revision"]) for body in bodies(driven, Update) if body["kind"] == "ControllerRevision"
    ]


def test_first_revision_is_created_with_the_annotations_of_the_set() -> None:
    (found,) = created(Scene(a_set(0, meta={"annotations": {"a": "b"}}), revisions=[]).sync())
    assert name_of(found) == called("v1")
    assert found["revision"] == 1
    assert found["metadata"]["annotations"] == {"a": "b"}
    assert found["metadata"]["labels"]["app"] == "web"
    assert found["data"]["spec"]["template"]["$patch"] == "replace"
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-of-web"


@pytest.mark.parametrize(
    ("image", "known", "new", "numbers"),
    [
        ("v1", [("v1", 1)], 0, []),
        ("v2", [("v1", 1)], 1, []),
        ("v1", [("v1", 1), ("v2", 2)], 0, [(called("v1"), 3)]),
    ],
)
def test_revision_of_known_template_gets_the_newest_number(
    image: str, known: list[tuple[str, int]], new: int, numbers: list[tuple[str, int]]
) -> None:
    driven = Scene(a_set(0, image=image), revisions=[revision(*each) for each in known]).sync()
    assert (len(created(driven)), raised(driven)) == (new, numbers)


def test_revision_of_old_release_equals_the_template() -> None:
    old = revision()
    template = old["data"]["spec"]["template"]
    template["metadata"] = {**template["metadata"], "creationTimestamp": None}
    driven = Scene(a_set(1), member(0), revisions=[old]).sync()
    assert not created(driven)
    assert not deleted_keys(driven)


def test_unused_history_beyond_the_limit_is_deleted() -> None:
    known = [revision(f"v{number}", number) for number in range(1, 6)]
    obj = a_set(1, image="v5", revisionHistoryLimit=1, updateStrategy={"type": "OnDelete"})
    driven = Scene(obj, member(0, image="v1"), revisions=known).sync()
    assert deleted_keys(driven) == [f"default/{called(image)}" for image in ("v2", "v3")]


@pytest.mark.parametrize(("outcome", "raises"), [(NotFound(), None), (Conflict(), CommandError)])
def test_failed_deletion_of_a_revision_is_retried(outcome: Outcome, raises: type[Exception] | None) -> None:
    known = [revision(f"v{number}", number) for number in range(1, 4)]
    scene = Scene(a_set(0, image="v3", revisionHistoryLimit=1), revisions=known)
    driven = scene.sync(lambda c: outcome if isinstance(c, Delete) else scene.bench.accept(c), raises=raises)
    assert deleted_keys(driven) == [f"default/{called('v1')}"]


def test_ten_revisions_are_kept_by_default() -> None:
    known = [revision(f"v{number}", number) for number in range(1, 13)]
    obj = a_set(0, image="v12", revisionHistoryLimit=None)
    assert deleted_keys(Scene(obj, revisions=known).sync()) == [f"default/{called('v1')}"]


def test_negative_limit_keeps_all_revisions() -> None:
    known = [revision(f"v{number}", number) for number in range(1, 6)]
    assert deleted_keys(Scene(a_set(0, image="v5", revisionHistoryLimit=-1), revisions=known).sync()) == []


def test_status_counts_pods_by_revision() -> None:
    before = {"replicas": 0, "availableReplicas": 0, "currentRevision": called("v1"), "collisionCount": 2}
    obj = a_set(4, image="v2", status=before, updateStrategy={"type": "OnDelete"}, meta={"generation": 7})
    pods = [member(0), member(1), member(2, image="v2", ready=False)]
    going = member(3, image="v2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]})
    driven = Scene(obj, *pods, going, revisions=[revision("v1", 1), revision("v2", 2)]).sync()
    assert status_written(driven) == {
        "observedGeneration": 7,
        "replicas": 4,
        "readyReplicas": 3,
        "currentReplicas": 2,
        "updatedReplicas": 1,
        "currentRevision": called("v1"),
        "updateRevision": called("v2"),
        "collisionCount": 2,
        "availableReplicas": 3,
    }


@pytest.mark.parametrize(
    ("strategy", "fixed", "complete"),
    [("RollingUpdate", False, True), ("OnDelete", False, False), ("OnDelete", True, True)],  # fixed in 1.37
)
def test_update_is_complete_when_all_pods_are_ready(strategy: str, fixed: bool, complete: bool) -> None:
    before = {"replicas": 2, "availableReplicas": 2, "currentRevision": called("v1")}
    obj = a_set(2, image="v2", status=before, updateStrategy={"type": strategy})
    known = [revision("v1", 1), revision("v2", 2)]
    members = member(0, image="v2"), member(1, image="v2")
    driven = Scene(obj, *members, revisions=known, on_delete_completes=fixed).sync()
    status = status_written(driven) or {}
    assert status["currentRevision"] == called("v2" if complete else "v1")
    assert status.get("currentReplicas") == (2 if complete else None)


def test_unchanged_status_is_not_written() -> None:
    scene = Scene(a_set(1), member(0))
    assert status_written(scene.sync()) is not None
    scene.bench.catch_up()
    assert scene.sync().commands == []


def test_conflicting_status_is_written_to_the_live_set() -> None:
    scene, refused = Scene(a_set(1), member(0)), []

    def answer(command: Any) -> Any:
        if isinstance(command, Update) and command.resource == STATEFULSETS.id and not refused:
            refused.append(command)
            return Conflict("newer")
        return scene.bench.accept(command)

    assert (status_written(scene.sync(answer)) or {})["replicas"] == 1


def test_failed_status_write_is_retried() -> None:
    scene = Scene(a_set(1), member(0))

    def answer(command: Any) -> Any:
        is_status = isinstance(command, Update) and command.resource == STATEFULSETS.id
        return Conflict("newer") if is_status else scene.bench.accept(command)

    driven = scene.sync(answer, raises=CommandError)
    assert len([obj for obj in driven.of(Update) if obj.subresource == "status"]) == 2  # to a newer version, once
    assert status_written(scene.sync()) is not None


@pytest.mark.parametrize(
    ("given", "replicas", "most"),
    [(None, 7, 1), (3, 0, 3), (0, 7, 1), ("10%", 25, 2), ("50%", 5, 2), ("10%", 5, 1), ("1%", 0, 1)],
)
def test_max_unavailable_of_an_update(given: Any, replicas: int, most: int) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": given}}
    assert read(a_set(replicas, updateStrategy=strategy)).at_once() == most


def test_unavailable_metric_with_the_feature_gate() -> None:
    scene = Scene(a_set(2), member(0), member(1), several_unavailable=True)
    scene.sync()
    assert scene.metrics.gauge(MAX_UNAVAILABLE, *LABELS).value == 1
    assert scene.metrics.gauge(UNAVAILABLE, *LABELS).value == 0
    scene.bench.hide(STATEFULSETS, "default/web")
    scene.sync()
    families = {family.name: series for family, series in scene.metrics.collect()}
    assert not any(families.get(family.name) for family in (MAX_UNAVAILABLE, UNAVAILABLE))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"replicas": "x"}, "spec.replicas is a number from 0 on, got 'x'"),
        ({"selector": {}}, "spec.selector is empty"),
        ({"template": []}, r"spec.template is a map, got \[\]"),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start is a number from 0 on, got -1"),
        ({"volumeClaimTemplates": [{}]}, "spec.volumeClaimTemplates is a list of claims that have a name"),
        ({"revisionHistoryLimit": "x"}, "spec.revisionHistoryLimit is a whole number, got 'x'"),
        ({"serviceName": 1}, "serviceName is a string, got 1"),
        ({"template": {"metadata": {"labels": ["x"]}}}, r"spec.template.metadata.labels is a map, got \['x'\]"),
        (
            {"updateStrategy": {"rollingUpdate": {"partition": -1}}},
            "spec.updateStrategy.rollingUpdate.partition is a number from 0 on, got -1",
        ),
        ({"status": {"currentReplicas": "3"}}, "status.currentReplicas is a number, got '3'"),
    ],
)
def test_error_names_the_malformed_field(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(a_set(**spec))
