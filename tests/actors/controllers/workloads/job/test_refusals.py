"""One write of a Job fails or has an unknown outcome: the final counts are the same."""

from __future__ import annotations

from contextlib import suppress

import pytest

from kcm.actors.reconciliation import Retry
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Patch, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Outcome, Refused, Unknown
from kcm.protocols.objects import Object, decode_object, encode_object, name_of
from kcm.protocols.resources import PODS
from tests.actors.controllers.workloads.job.scene import Scene, exited, job, pod
from tests.support.refusals import OneWriteFails, with_each_failure

ROUNDS = 8  # syncs until the Job is settled


def there() -> list[Object]:
    done = [pod(f"done{i}", "Succeeded", status=exited(0)) for i in range(2)]
    return [*done, pod("failed", "Failed", status=exited(1, at=0.0)), pod("runs", "Running")]


def settle(outcome: Outcome | None, number: int, *, parallelism: int) -> Scene | None:
    """Fail this write, sync until the Job is settled; None if there are fewer writes."""
    scene = Scene(job(parallelism=parallelism, completions=5), there())
    answer = OneWriteFails(outcome, number, scene.accept)
    for _ in range(ROUNDS):
        with suppress(CommandError, Retry):
            scene.sync(answer)
        scene.bench.clock.advance(60.0)
    return scene if answer.met else None


@pytest.mark.parametrize(("parallelism", "active"), [(3, 3), (0, 0)])
@with_each_failure
def test_each_pod_is_counted_once_despite_a_failed_write(outcome: Outcome, parallelism: int, active: int) -> None:
    """The writes create or delete pods, remove finalizers, or update the status."""
    whole = settle(None, 0, parallelism=parallelism)
    assert whole is not None
    assert whole.counts == (active, 2, 1)
    tried = 0
    while (scene := settle(outcome, tried, parallelism=parallelism)) is not None:
        assert scene.counts == whole.counts, f"write {tried}"
        assert scene.status["uncountedTerminatedPods"] == {}
        tried += 1
    assert tried >= 5


def test_sync_succeeds_if_the_job_is_deleted_meanwhile() -> None:
    scene = Scene(job(completions=5), there())

    def answer(command: Command) -> Outcome:
        return NotFound() if isinstance(command, Update) else scene.accept(command)

    assert scene.sync(answer).error is None


def test_existing_name_is_fetched_and_the_next_sync_uses_another() -> None:
    scene = Scene(job(parallelism=1, completions=1))

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create):
            taken.append(name_of(decode_object(command.body)))
            return AlreadyExists()
        if isinstance(command, Get):
            meta = {"name": taken[0], "namespace": "default", "uid": "of a stranger", "resourceVersion": "9"}
            return Done(encode_object({"metadata": meta}))
        return scene.accept(command)

    taken: list[str] = []
    driven = scene.sync(answer)
    assert driven.events == []
    assert driven.result is not None
    [created] = scene.sync().of(Create)
    assert name_of(decode_object(created.body)) not in taken


@pytest.mark.parametrize("lost", [Patch, Delete])
def test_pod_with_unknown_deletion_is_deleted_first(lost: type[Command]) -> None:
    """The deletion order has changed meanwhile: without memory, a second pod would be deleted and then replaced."""
    some = [pod("a", "Pending"), pod("b", "Running"), pod("c", "Running")]
    scene = Scene(job(parallelism=2, completions=5), some)
    driven = scene.sync(
        lambda command: Unknown("cut") if isinstance(command, lost) else scene.accept(command), raises=CommandError
    )
    assert {command.key for command in driven.of(Patch, Delete)} == {"default/a"}
    scene.bench.show(PODS, pod("a", "Running", tracked=lost is Patch, resourceVersion="900"))
    scene.bench.show(PODS, pod("b", "Pending", resourceVersion="901"))
    again = scene.sync(lambda command: Refused("away"), raises=CommandError)
    assert {command.key for command in again.of(Patch, Delete)} == {"default/a"}
    assert {command.key for command in scene.sync().of(Patch, Delete)} == {"default/a"}
