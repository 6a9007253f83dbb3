"""One write of a StatefulSet fails or has an unknown outcome: the final state is the same."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Delete
from kcm.protocols.messages.outcomes import Outcome
from kcm.protocols.objects import labels_of, name_of
from kcm.protocols.resources import CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFULSETS
from tests.actors.controllers.workloads.statefulset.scenes import KEY, WEB, Scene, a_claim, a_set, member, revision
from tests.support.refusals import OneWriteFails, with_each_failure

BY_SET = {"whenDeleted": "Delete", "whenScaled": "Delete"}


def settle(outcome: Outcome | None, number: int) -> tuple[list[Any], bool]:
    """Sync until nothing is left to do, while one write has this outcome. Return whether that write occurred.

    One pod is missing, one has lost its label, one is of an old template and one is not wanted any more.
    """
    pods = [
        member(0, claims=["data"]),
        member(1, claims=["data"], labels={**WEB, "controller-revision-hash": "web-x"}),
        member(3, claims=["data"]),
    ]
    obj = a_set(3, claims=["data"], parallel=True, persistentVolumeClaimRetentionPolicy=BY_SET)
    claims = [a_claim(f"data-web-{ordinal}") for ordinal in (0, 1, 3)]
    scene = Scene(obj, *pods, claims=claims, revisions=[revision("v0", 1), revision("v1", 2)])
    tables, answer = scene.bench.tables, OneWriteFails(outcome, number, scene.bench.accept)
    for _ in range(6):
        with suppress(CommandError):
            driven = scene.sync(answer)
            gone = [command.key for command in driven.of(Delete) if command.resource == PODS.id]
            scene.bench.catch_up()
            for key in gone:
                if tables[PODS].get(key) is not None:
                    scene.bench.hide(PODS, key)
        scene.bench.clock.advance(60.0)
    pods_there = sorted((name_of(pod), *sorted(labels_of(pod).items())) for pod in tables[PODS].objects())
    owned = {
        name_of(claim): [obj["kind"] for obj in claim["metadata"].get("ownerReferences") or ()]
        for claim in tables[PERSISTENT_VOLUME_CLAIMS].objects()
    }
    numbers = sorted(obj["revision"] for obj in tables[CONTROLLER_REVISIONS].objects())
    return [pods_there, owned, numbers, (tables[STATEFULSETS].get(KEY) or {})["status"]], answer.met


@with_each_failure
def test_each_identity_exists_once_despite_a_failed_write(outcome: Outcome) -> None:
    whole, _ = settle(None, 0)
    assert [name for name, *_ in whole[0]] == ["web-0", "web-1", "web-2"]
    assert whole[1] == {f"data-web-{n}": ["Pod" if n == 3 else "StatefulSet"] for n in range(4)}
    tried = 0
    while True:
        found, met = settle(outcome, tried)
        assert found == whole, f"write {tried}"
        if not met:
            break
        tried += 1
    assert tried >= 8
