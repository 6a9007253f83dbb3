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


def test_finished_job_is_removed_from_active() -> None:
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


def test_last_success_never_decreases_even_without_history() -> None:
    jobs = (job("a", end="Complete", at=hour(8)), job("b", end="Complete", at=hour(7)))
    given = cron_job(last=NINE, successfulJobsHistoryLimit=0)
    assert status_of(Scene(given, *jobs, now=DAY + "09:45:00Z").sync())["lastSuccessfulTime"] == hour(8)


def test_oldest_finished_jobs_are_deleted() -> None:
    given = cron_job(last=NINE, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
    jobs = [job(f"ok-{n}", end="Complete", at=hour(n), started=hour(n)) for n in (1, 2, 3, 4)]
    jobs += [job("bad-1", end="Failed", started=hour(5)), job("bad-2", end="Failed"), job("running", started=hour(0))]
    driven = Scene(given, *jobs, now=DAY + "09:45:00Z").sync()
    assert [command.key for command in driven.of(Delete)] == ["default/ok-1", "default/ok-2", "default/bad-1"]
    assert {command.propagation for command in driven.of(Delete)} == {"Background"}
    assert reasons(driven).count("SuccessfulDelete") == 3


def test_all_jobs_are_kept_without_limits() -> None:
    jobs = [job(f"ok-{n}", end="Complete", at=hour(n)) for n in range(5)]
    assert Scene(cron_job(last=NINE), *jobs, now=DAY + "09:45:00Z").sync().of(Delete) == []


def test_missing_active_job_is_read_live() -> None:
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


def test_jobs_of_previous_cron_job_of_the_same_name_are_ignored() -> None:
    theirs = [job(f"theirs-{n}", end="Complete", at=hour(n), owner="uid-of-another") for n in range(5)]
    driven = Scene(cron_job(last=NINE, successfulJobsHistoryLimit=0), *theirs, now=DAY + "09:45:00Z").sync()
    assert driven.commands == []


def test_job_without_recorded_status_is_not_started_again_after_a_crash() -> None:
    forgotten = job(name_at(TEN), slot=TEN)
    driven = Scene(cron_job(), forgotten, now=DAY + "10:01:00Z").sync()
    assert (created(driven), reasons(driven)) == ([], [])
    assert status_of(driven)["lastScheduleTime"] == TEN
    assert [each["name"] for each in status_of(driven)["active"]] == [name_at(TEN)]


def test_unrecorded_job_counts_for_policy_forbid() -> None:
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


def test_nothing_is_written_twice_although_the_watch_is_late() -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")
    assert created(scene.sync())
    assert scene.sync().commands == []


def test_terminating_cron_job_starts_nothing() -> None:
    given = cron_job(active=("one",))
    given["metadata"]["deletionTimestamp"] = TEN
    driven = Scene(given, job("one", end="Failed"), now=DAY + "10:01:00Z").sync()
    assert (created(driven), reasons(driven), driven.result) == ([], ["SawCompletedJob"], None)
    assert status_of(driven) == {}


def test_unreadable_cron_job_is_ignored() -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")
    scene.bench.spoil(CRONJOBS, "default/cj")
    assert scene.sync(raises=RuntimeError).commands == []
