"""One write of a CronJob fails or has an unknown outcome: the final state is the same."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import pytest

from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get
from kcm.protocols.messages.outcomes import Done, NotFound, Outcome
from kcm.protocols.resources import CRONJOBS, JOBS
from tests.actors.controllers.workloads.cronjob.cron_jobs import DAY, KEY, Scene, cron_job, job
from tests.support.refusals import OneWriteFails, with_each_failure

NINE = DAY + "09:00:00Z"


class End(NamedTuple):
    """Final state of a CronJob.

    active: names of Jobs.
    last: the last slot.
    jobs: keys of existing Jobs.
    """

    active: list[str]
    last: str
    jobs: list[str]


def settle(policy: str, outcome: Outcome | None = None, number: int = -1) -> End | None:
    """Fail this write, sync some more times, and return the final state; None if there are fewer writes.

    One Job has ended, one too many is kept, one runs, and a slot is due.
    """
    shown = cron_job(last=NINE, active=("done", "run"), concurrencyPolicy=policy, successfulJobsHistoryLimit=1)
    done = job("done", end="Complete", at=DAY + "09:30:00Z", started=NINE)
    old = job("old", end="Complete", at=DAY + "08:30:00Z", started=DAY + "08:00:00Z")
    scene = Scene(shown, done, old, job("run", started=NINE), now=DAY + "10:00:05Z")
    tables = scene.bench.tables

    def sound(command: Command) -> Outcome:
        if not isinstance(command, Get):
            return scene.bench.accept(command)
        entry = tables[CRONJOBS if command.resource == CRONJOBS.id else JOBS].entry(command.key)
        return NotFound() if entry is None else Done(entry.raw)

    answer = OneWriteFails(outcome, number, sound)
    for _ in range(4):
        with suppress(CommandError):
            scene.sync(answer)
    status = (tables[CRONJOBS].get(KEY) or {})["status"]
    active = sorted(reference["name"] for reference in status["active"])
    jobs = sorted(entry.key for entry in tables[JOBS].entries())
    return End(active, status["lastScheduleTime"], jobs) if answer.met else None


@pytest.mark.parametrize(("policy", "writes"), [("Allow", 3), ("Forbid", 2), ("Replace", 4)])
@with_each_failure
def test_slot_is_started_once_despite_a_failed_write(outcome: Outcome, policy: str, writes: int) -> None:
    whole = settle(policy)
    assert whole is not None
    assert [settle(policy, outcome, number) for number in range(writes + 1)] == [whole] * writes + [None]
