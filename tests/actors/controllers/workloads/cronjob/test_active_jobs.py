"""Status of a CronJob, deletion of finished Jobs, and recovery from a crash between two writes."""

from __future__ import annotations

from kcm.protocols.messages.commands import Command, Create, Delete, Get, Update
from kcm.protocols.messages.outcomes import NotFound, Outcome
from kcm.protocols.resources import CRONJOBS
from tests.actors.controllers.workloads.cronjob.cron_jobs import (
    DAY,
    Scene,
    created,
    cron_job,
    job,
    name_at,
    reasons,
    status_of,
)

NINE, TEN = DAY + "09:00:00Z", DAY + "10:00:00Z"


def hour(number: int) -> str:
    return f"{DAY}{number:02}:00:00Z"


def test_a_job_that_has_ended_is_active_no_more() -> None:
    given = cron_job(last=NINE, active=("done", "failed", "running"))
    jobs = (job("done", end="Complete", at=DAY + "09:30:00Z"), job("failed", end="Failed"), job("running"))
    driven = Scene(given, *jobs, now=DAY + "09:45:00Z").sync()
    assert sorted(message for _, _, message in driven.events) == [
        "Saw completed job: done, condition: Complete",
        "Saw completed job: failed, condition: Failed",
    ]
    status = status_of(driven)
    assert [each["name"] for each in status["active"]] == ["running"]
    assert (status["lastSuccessfulTime"], status["lastScheduleTime"]) == (DAY + "09:30:00Z", NINE)


def test_the_last_success_never_goes_back_and_counts_where_no_history_is_kept() -> None:
    jobs = (job("a", end="Complete", at=hour(8)), job("b", end="Complete", at=hour(7)))
    given = cron_job(last=NINE, successfulJobsHistoryLimit=0)
    assert status_of(Scene(given, *jobs, now=DAY + "09:45:00Z").sync())["lastSuccessfulTime"] == hour(8)


def test_the_oldest_that_have_ended_go() -> None:
    given = cron_job(last=NINE, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    jobs = [job(f"ok-{n}", end="Complete", at=hour(n), started=hour(n)) for n in (1, 2, 3, 4)]
    jobs += [job("bad-1", end="Failed", started=hour(5)), job("bad-2", end="Failed"), job("running", started=hour(0))]
    driven = Scene(given, *jobs, now=DAY + "09:45:00Z").sync()
    assert [command.key for command in driven.of(Delete)] == ["default/ok-1", "default/ok-2", "default/bad-1"]
    assert {command.propagation for command in driven.of(Delete)} == {"Background"}
    assert reasons(driven).count("SuccessfulDelete") == 3


def test_without_limits_all_stay() -> None:
    jobs = [job(f"ok-{n}", end="Complete", at=hour(n)) for n in range(5)]
    assert Scene(cron_job(last=NINE), *jobs, now=DAY + "09:45:00Z").sync().of(Delete) == []


def test_an_active_job_that_is_missing_is_looked_for_on_the_server() -> None:
    def sync(*, there: bool) -> tuple[list[str], bool]:
        scene = Scene(cron_job(last=NINE, active=("one",)), now=DAY + "09:45:00Z")
        scene_of_server = Scene(cron_job(), job("one"), now=NINE)

        def answer(command: Command) -> Outcome:
            if isinstance(command, Get):
                return scene_of_server.bench.accept(command) if there else NotFound()
            return scene.bench.accept(command)

        driven = scene.sync(answer)
        return reasons(driven), driven.of(Update) != []

    assert sync(there=True) == ([], False)
    assert sync(there=False) == (["MissingJob"], True)


def test_job_created_by_hand_is_unexpected_and_not_active() -> None:
    driven = Scene(cron_job(last=NINE), job("by-hand"), now=DAY + "09:45:00Z").sync()
    message = "Saw a job that the controller did not create or forgot: by-hand"
    assert (driven.events, driven.of(Update)) == ([("Warning", "UnexpectedJob", message)], [])


def test_jobs_of_a_namesake_are_left_alone() -> None:
    theirs = [job(f"theirs-{n}", end="Complete", at=hour(n), owner="uid-of-another") for n in range(5)]
    driven = Scene(cron_job(last=NINE, successfulJobsHistoryLimit=0), *theirs, now=DAY + "09:45:00Z").sync()
    assert driven.commands == []


def test_after_a_crash_before_the_status_was_written_the_job_counts_and_is_not_started_again() -> None:
    forgotten = job(name_at(TEN), slot=TEN)
    driven = Scene(cron_job(), forgotten, now=DAY + "10:01:00Z").sync()
    assert (created(driven), reasons(driven)) == ([], [])
    assert status_of(driven)["lastScheduleTime"] == TEN
    assert [each["name"] for each in status_of(driven)["active"]] == [name_at(TEN)]


def test_one_that_forbids_counts_what_it_had_forgotten() -> None:
    given = cron_job(concurrencyPolicy="Forbid")
    driven = Scene(given, job(name_at(TEN), slot=TEN), now=DAY + "11:01:00Z").sync()
    assert (created(driven), reasons(driven)) == ([], ["JobAlreadyActive"])


def test_unrecorded_job_is_written_to_the_status_before_it_is_deleted() -> None:
    ended = job(name_at(TEN), slot=TEN, end="Complete", at=DAY + "10:00:30Z")
    driven = Scene(cron_job(successfulJobsHistoryLimit=0), ended, now=DAY + "10:01:00Z").sync()
    kinds = [type(command) for command in driven.commands]
    assert kinds.index(Update) < kinds.index(Delete)
    assert Create not in kinds
    assert status_of(driven)["lastScheduleTime"] == TEN


def test_nothing_is_written_twice_though_the_watch_is_late() -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")
    assert created(scene.sync())
    assert scene.sync().commands == []


def test_one_that_is_being_deleted_starts_nothing() -> None:
    given = cron_job(active=("one",))
    given["metadata"]["deletionTimestamp"] = TEN
    driven = Scene(given, job("one", end="Failed"), now=DAY + "10:01:00Z").sync()
    assert (created(driven), reasons(driven), driven.result) == ([], ["SawCompletedJob"], None)
    assert status_of(driven) == {}


def test_a_cron_job_that_cannot_be_read_is_left_alone() -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")
    scene.bench.spoil(CRONJOBS, "default/cj")
    assert scene.sync(raises=RuntimeError).commands == []
