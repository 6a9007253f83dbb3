"""Syncs without changes: they repeat the last result until the next slot."""

from __future__ import annotations

from kcm.actors.simulation.driver import Driven
from kcm.protocols.messages.commands import Command, Create, Delete, Update
from kcm.protocols.messages.outcomes import Outcome, ServerFailure
from kcm.protocols.resources import CRONJOBS, JOBS
from kcm.protocols.times import parse_time
from tests.actors.controllers.workloads.cronjob.cron_jobs import (
    DAY,
    KEY,
    Scene,
    after,
    created,
    cron_job,
    job,
    name_at,
    reasons,
    status_of,
)

TEN, ELEVEN = DAY + "10:00:00Z", DAY + "11:00:00Z"
NAME = name_at(TEN)


def started() -> Scene:
    """Return a scene whose first sync has created the Job of ten o'clock, and whose tables contain its writes."""
    scene = Scene(cron_job(), now=DAY + "10:00:01Z")
    assert len(created(scene.sync())) == 1
    scene.bench.catch_up()
    return scene


def decodes(scene: Scene) -> tuple[Driven, bool]:
    """Sync with nothing decoded before. Return the result, and whether an object was decoded."""
    lister = scene.bench.tables[CRONJOBS]
    entry = lister.entry(KEY)
    assert entry is not None
    entry.decoded = None
    driven = scene.sync()
    return driven, entry.decoded is not None


def test_events_of_own_writes_need_no_second_sync() -> None:
    scene = started()
    scene.bench.clock.wall += 1.0
    driven, decoded = decodes(scene)
    assert (driven.commands, after(driven), decoded) == ([], 59 * 60 + 58.1, False)


def test_decision_of_the_last_sync_is_repeated() -> None:
    scene = started()
    because = scene.sync().reasons
    assert because == ["next scheduled time is 2016-05-19T11:00:00Z; has 1 active Job"]


def test_next_slot_is_synced_when_it_is_due() -> None:
    scene = started()
    scene.bench.clock.wall = parse_time(ELEVEN) + 0.2
    assert [made["metadata"]["name"] for made in created(scene.sync())] == [name_at(ELEVEN)]


def test_job_that_finishes_is_synced() -> None:
    scene = started()
    uid = scene.bench.tables[JOBS].entries()[0].uid
    done = job(NAME, end="Complete", at=DAY + "10:00:05Z", slot=TEN)
    scene.bench.show(JOBS, {**done, "metadata": {**done["metadata"], "uid": uid}})
    driven = scene.sync()
    assert reasons(driven) == ["SawCompletedJob"]
    assert status_of(driven) == {"lastScheduleTime": TEN, "lastSuccessfulTime": DAY + "10:00:05Z"}


def test_job_that_another_client_deletes_is_synced() -> None:
    scene = started()
    scene.bench.hide(JOBS, f"default/{NAME}")
    assert reasons(scene.sync()) == ["MissingJob"]


def test_job_that_changes_during_the_sync_is_synced_again() -> None:
    scene = Scene(cron_job(), job("other"), now=DAY + "10:00:01Z")

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create):
            scene.bench.show(JOBS, job("other", end="Complete"))
        return scene.bench.accept(command)

    assert reasons(scene.sync(answer)) == ["UnexpectedJob", "SuccessfulCreate"]
    scene.bench.catch_up()
    _, decoded = decodes(scene)
    assert decoded


def test_changed_cron_job_is_synced() -> None:
    scene = started()
    scene.bench.show(CRONJOBS, cron_job(suspend=True, last=TEN))
    driven, decoded = decodes(scene)
    assert (after(driven), decoded) == (None, True)


def test_failed_deletion_of_an_old_job_is_retried_by_the_next_sync() -> None:
    old = job("old", end="Complete", at=DAY + "09:00:00Z")
    scene = Scene(cron_job(last=TEN, successfulJobsHistoryLimit=0), old, now=DAY + "10:00:01Z")

    def refuse(command: Command) -> Outcome:
        return ServerFailure("no") if isinstance(command, Delete) else scene.bench.accept(command)

    assert len(scene.sync(refuse).of(Delete)) == 1
    assert len(scene.sync().of(Delete)) == 1


def test_failed_status_is_written_by_the_next_sync() -> None:
    scene = Scene(cron_job(), now=DAY + "10:00:01Z")

    def refuse(command: Command) -> Outcome:
        return ServerFailure("no") if isinstance(command, Update) else scene.bench.accept(command)

    scene.sync(refuse, raises=Exception)
    scene.bench.catch_up()
    assert status_of(scene.sync())["lastScheduleTime"] == TEN


def test_slot_before_a_changed_schedule_is_started_by_the_sync_after_it() -> None:
    scene = Scene(cron_job("0 0 1 1 *"), now=DAY + "10:00:01Z")
    scene.sync()
    scene.bench.show(CRONJOBS, cron_job())
    assert created(scene.sync()) == []
    assert len(created(scene.sync())) == 1


def test_schedule_with_a_zone_is_reported_by_each_sync() -> None:
    scene = Scene(cron_job("TZ=UTC 0 * * * *", last=TEN), now=DAY + "10:00:01Z")
    assert reasons(scene.sync()) == ["UnsupportedSchedule"]
    assert reasons(scene.sync()) == ["UnsupportedSchedule"]
