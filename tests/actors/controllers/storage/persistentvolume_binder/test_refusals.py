"""Tests in which one write of the binder fails or has an unknown outcome.

The final bindings must be the same as without the failure.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import count

from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import Outcome
from kcm.protocols.objects import name_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.volumes import MIGRATED_TO, PROVISIONER
from tests.actors.controllers.storage.persistentvolume_binder.scene import BOTH, BY_US, Scene, claim, class_, volume
from tests.support.refusals import OneWriteFails, with_each_failure


def scene() -> Scene:
    """Return a bench with claims and volumes in various states.

    Claims can be bound, lack their volume, or have a wrong provisioner; some volumes refer to a wrong claim.
    """
    stale = {PROVISIONER: "example.com/old", MIGRATED_TO: "x"}
    return Scene(
        [
            volume("free"),
            volume("twice", of="bound", uid="bound", phase="Bound", marks=BY_US),
            volume("reserved", of="bound", uid="bound", phase="Bound"),
            volume("left", of="gone", uid="gone", phase="Bound"),
            volume("mine", "5Gi", of="bound", uid="bound", phase="Bound", marks=BY_US),
        ],
        [
            claim(uid="uid"),
            claim("bound", "5Gi", uid="bound", to="mine", phase="Bound", marks=BOTH),
            claim("lost", uid="lost", to="nowhere", phase="Bound", marks=BOTH),
            claim("new", "50Gi", uid="new", class_="gold", marks=stale),
        ],
        [class_("gold")],
    )


def sync_all(target: Scene, answer: Callable[[Command], Outcome] | None = None) -> None:
    """Sync all claims, then all volumes. A failed sync does not stop the others."""
    tables = target.bench.tables
    for claim_ in tables[PERSISTENT_VOLUME_CLAIMS].objects():
        with suppress(CommandError):
            target.sync_claim(name_of(claim_), answer=answer)
    for volume_ in tables[PERSISTENT_VOLUMES].objects():
        with suppress(CommandError):
            target.sync_volume(name_of(volume_), answer=answer)


@with_each_failure
def test_end_state_is_the_same_after_a_failed_write(outcome: Outcome) -> None:
    whole = scene()
    for _ in range(3):
        sync_all(whole)
    assert whole.claims == [
        "bound Bound mine +us +done",
        "claim Bound free +us +done",
        "lost Lost nowhere +us +done",
        "new Pending +example.com/disk",
    ]
    for number in count():
        target = scene()
        answer = OneWriteFails(outcome, number, target.bench.accept)
        for _ in range(3):
            sync_all(target, answer)
        assert (target.claims, target.volumes) == (whole.claims, whole.volumes), f"write {number}"
        if not answer.met:
            assert number >= 10
            return
