"""Unchanged pods are examined once; a change of a pod, of its claims or of the set is noticed."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.shared import ownership
from kcm.actors.controllers.workloads.statefulset import pod_control
from kcm.actors.controllers.workloads.statefulset.identity import NAME_LABEL
from kcm.actors.simulation.driver import Driven, bodies
from kcm.protocols.messages.commands import Patch, Update
from kcm.protocols.objects import Object
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from kcm.runtime.tables.lister import UnreadableError
from tests.actors.controllers.workloads.statefulset.scenes import KEY, Scene, a_claim, a_reference, a_set, made, member

DELETE = {"whenDeleted": "Delete", "whenScaled": "Retain"}
OWNER = a_reference("StatefulSet", "web")


@pytest.fixture
def scene() -> Scene:
    """Return a synced set of two running pods with claims, which the set owns."""
    obj = a_set(2, claims=["data"], persistentVolumeClaimRetentionPolicy=DELETE)
    pods = [member(ordinal, claims=["data"]) for ordinal in range(2)]
    made = Scene(obj, *pods, claims=[a_claim(f"data-web-{ordinal}", OWNER) for ordinal in range(2)])
    made.sync()
    made.bench.catch_up()
    return made


@pytest.fixture
def examined(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of pods and claims that are examined from now on."""
    names: list[str] = []
    has_volumes, has_owners, plan = pod_control.has_its_volumes, pod_control.has_its_owners, ownership.plan_claim

    def note_pod(stateful_set: Any, ordinal: int, pod: Any) -> bool:
        names.append(f"web-{ordinal}")
        return has_volumes(stateful_set, ordinal, pod)

    def note_claim(claim: Any, stateful_set: Any, of: Any) -> bool:
        names.append(claim["metadata"]["name"])
        return has_owners(claim, stateful_set, of)

    def note_candidates(candidates: Any, **options: Any) -> Any:
        candidates = list(candidates)
        names.extend(f"selected {entry.key}" for entry in candidates if entry.facts is not None)  # a pod
        return plan(candidates, **options)

    monkeypatch.setattr(pod_control, "has_its_volumes", note_pod)
    monkeypatch.setattr(pod_control, "has_its_owners", note_claim)
    monkeypatch.setattr(ownership, "plan_claim", note_candidates)
    return names


def change(scene: Scene, resource: Any, key: str, **fields: Any) -> None:
    obj: Object = dict(scene.bench.tables[resource].get(key) or {})
    meta = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    scene.bench.show(resource, {**obj, "metadata": {**meta, **fields.pop("metadata", {})}, **fields})


def owners_written(driven: Driven) -> list[str]:
    return [body["metadata"]["name"] for body in bodies(driven, Update) if body["kind"] == "PersistentVolumeClaim"]


def test_nothing_is_examined_while_nothing_changes(scene: Scene, examined: list[str]) -> None:
    assert scene.sync().commands == []
    assert examined == []


def test_only_a_changed_pod_is_examined(scene: Scene, examined: list[str]) -> None:
    change(scene, PODS, "default/web-1", metadata={"annotations": {"a": "b"}})
    scene.sync()
    assert examined == ["selected default/web-1", "web-1", "data-web-1"]
    del examined[:]
    scene.sync()
    assert examined == []


def test_pod_without_its_identity_is_corrected(scene: Scene) -> None:
    change(scene, PODS, "default/web-1", metadata={"labels": {**member(1)["metadata"]["labels"], NAME_LABEL: "x"}})
    (body,) = bodies(scene.sync(), Update)
    assert body["metadata"]["labels"][NAME_LABEL] == "web-1"


def test_unselected_pod_is_released(scene: Scene) -> None:
    change(scene, PODS, "default/web-1", metadata={"labels": {}})
    assert [command.key for command in scene.sync().of(Patch)] == ["default/web-1"]


def test_owners_of_a_changed_claim_are_corrected(scene: Scene) -> None:
    change(scene, PERSISTENT_VOLUME_CLAIMS, "default/data-web-0", metadata={"ownerReferences": []})
    assert owners_written(scene.sync()) == ["data-web-0"]


def test_missing_claim_of_a_pending_pod_is_created(scene: Scene) -> None:
    change(scene, PODS, "default/web-1", status={"phase": "Pending"})
    scene.sync()
    scene.bench.hide(PERSISTENT_VOLUME_CLAIMS, "default/data-web-1")
    assert made(scene.sync()) == ["data-web-1"]


def test_claims_are_examined_after_a_change_of_the_policy(scene: Scene) -> None:
    retaining = {"whenDeleted": "Retain", "whenScaled": "Retain"}
    spec = dict(scene.bench.tables[STATEFULSETS].get(KEY)["spec"])  # type: ignore[index]
    change(scene, STATEFULSETS, KEY, spec={**spec, "persistentVolumeClaimRetentionPolicy": retaining})
    assert owners_written(scene.sync()) == ["data-web-0", "data-web-1"]


def test_unreadable_claim_holds_the_set_back(scene: Scene) -> None:
    scene.bench.spoil(PERSISTENT_VOLUME_CLAIMS, "default/data-web-1")
    scene.sync(raises=UnreadableError)
