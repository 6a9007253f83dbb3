"""Creation of Jobs: upstream's test tables of the hourly CronJob."""

from __future__ import annotations

from itertools import count

import pytest

from kcm.actors.simulation.driver import Answer, Driven
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Get, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Done, Forbidden, NotFound, Outcome, ServerFailure, Unknown
from kcm.protocols.objects import Object, encode_object, name_of
from kcm.protocols.resources import CRONJOBS, JOBS
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

TEN = DAY + "10:00:00Z"
WEEK_LATER = "2016-05-26T10:00:00Z"


@pytest.mark.parametrize(
    ("given", "now", "starts", "events", "wait"),
    [
        pytest.param(cron_job(), "09:59:00Z", None, [], 60.1, id="it never ran, and is not due"),
        pytest.param(cron_job(), "10:01:00Z", TEN, ["SuccessfulCreate"], 59 * 60 + 0.1, id="it is due"),
        pytest.param(cron_job(last=TEN), "10:01:00Z", None, [], 59 * 60 + 0.1, id="that is done"),
        pytest.param(cron_job(active=(name_at(TEN),)), "10:01:00Z", None, [], 59 * 60 + 0.1, id="it is active"),
        pytest.param(cron_job(suspend=True), "10:01:00Z", None, [], None, id="suspended"),
        pytest.param(cron_job("bad schedule"), "10:01:00Z", None, ["UnparseableSchedule"], None, id="no schedule"),
        pytest.param(cron_job(timeZone="Bad/Zone"), "10:01:00Z", None, ["UnknownTimeZone"], None, id="no zone"),
        pytest.param(cron_job("59 23 31 2 *"), "10:01:00Z", None, ["InvalidSchedule"], None, id="no slot"),
        pytest.param(cron_job(startingDeadlineSeconds=10), "10:12:00Z", None, [], 48 * 60 + 0.1, id="too late"),
        pytest.param(
            cron_job(last=DAY + "10:01:00Z"), "09:59:00Z", None, [], 61 * 60 + 0.1, id="the clock was set back"
        ),
        pytest.param(
            cron_job("TZ=UTC 0 * * * *", timeZone="America/New_York"),
            "10:01:00Z",
            TEN,
            ["UnsupportedSchedule", "SuccessfulCreate"],
            59 * 60 + 0.1,
            id="a schedule with its zone",
        ),
        pytest.param(
            cron_job("@every 1h"), "10:59:00Z", DAY + "10:59:00Z", ["SuccessfulCreate"], 3600.1, id="every hour"
        ),
        pytest.param(
            cron_job("@every 1h", last=DAY + "09:59:00Z"),
            "11:00:00Z",
            DAY + "10:59:00Z",
            ["SuccessfulCreate"],
            59 * 60 + 0.1,
            id="every hour, and late",
        ),
        pytest.param(
            cron_job("@every 1h", startingDeadlineSeconds=10), "11:30:00Z", None, [], 29 * 60 + 0.1, id="never due"
        ),
    ],
)
def test_job_is_created_when_its_slot_is_due(
    given: Object, now: str, starts: str | None, events: list[str], wait: float | None
) -> None:
    scene = (
        Scene(given, job(name_at(TEN)), now=DAY + now) if given["status"].get("active") else Scene(given, now=DAY + now)
    )
    driven = scene.sync()
    assert [each["metadata"]["name"] for each in created(driven)] == ([] if starts is None else [name_at(starts)])
    assert (reasons(driven), after(driven)) == (events, wait)
    if starts is not None:
        assert status_of(driven)["lastScheduleTime"] == starts


@pytest.mark.parametrize(("deadline", "many"), [(None, True), (1_000_000, True), (7200, False), (10, False)], ids=str)
def test_last_slot_of_a_missed_week_is_started(deadline: int | None, many: bool) -> None:
    given = cron_job() if deadline is None else cron_job(startingDeadlineSeconds=deadline)
    driven = Scene(given, now=WEEK_LATER).sync()
    assert [each["metadata"]["name"] for each in created(driven)] == [name_at(WEEK_LATER)]
    assert reasons(driven) == (["TooManyMissedTimes"] if many else []) + ["SuccessfulCreate"]
    assert after(driven) == 3600.1


def test_job_has_its_slot_in_the_time_zone_and_its_owner() -> None:
    scene = Scene(cron_job(timeZone="America/New_York", last=DAY + "09:00:00Z"), now=DAY + "10:00:05Z")
    [made] = created(scene.sync())
    assert made["metadata"] == {
        "name": name_at(TEN),
        "namespace": "default",
        "labels": {"a": "b"},
        "annotations": {"x": "y", "batch.kubernetes.io/cronjob-scheduled-timestamp": "2016-05-19T06:00:00-04:00"},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "CronJob",
                "name": "cj",
                "uid": "uid-of-cj",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert made["spec"] == {"template": {"spec": {}}}
    assert scene.skews == [5.0]


def test_schedule_without_time_zone_uses_the_local_one() -> None:
    given = cron_job("30 12 * * *", created=DAY + "00:00:00Z")
    assert created(Scene(given, now=DAY + "10:31:00Z", local="Europe/Berlin").sync())
    assert not created(Scene(given, now=DAY + "10:31:00Z").sync())


def test_concurrency_policy_decides_about_active_jobs() -> None:
    def sync(policy: str) -> tuple[list[str], list[str], int]:
        given = cron_job(last=DAY + "09:00:00Z", active=(name_at(DAY + "09:00:00Z"),), concurrencyPolicy=policy)
        driven = Scene(given, job(name_at(DAY + "09:00:00Z")), now=DAY + "10:01:00Z").sync()
        active = status_of(driven)["active"] if created(driven) else []
        return [type(command).__name__ for command in driven.of(Create, Delete)], reasons(driven), len(active)

    assert sync("Allow") == (["Create"], ["SuccessfulCreate"], 2)
    assert sync("Forbid") == ([], ["JobAlreadyActive"], 0)
    assert sync("Replace") == (["Delete", "Create"], ["SuccessfulDelete", "SuccessfulCreate"], 1)


@pytest.mark.parametrize(("refused", "reason"), [(Get, "FailedGet"), (Delete, "FailedDelete")])
def test_nothing_is_started_if_the_active_job_cannot_be_replaced(refused: type[Command], reason: str) -> None:
    """A Job that the watch does not show yet is read live, if it is active and must be replaced."""
    running = job(name_at(DAY + "09:00:00Z"))
    given = cron_job(last=DAY + "09:00:00Z", active=(name_of(running),), concurrencyPolicy="Replace")
    scene = Scene(given, *([] if refused is Get else [running]), now=DAY + "10:01:00Z")
    meta = {**running["metadata"], "uid": f"uid-of-{name_of(running)}", "resourceVersion": "7"}
    asked = count()

    def answer(command: Command) -> Outcome:
        if getattr(command, "resource", "") != JOBS.id:
            return scene.bench.accept(command)
        if isinstance(command, Get) and next(asked) == 0:
            return Done(encode_object({**running, "metadata": meta}))
        return ServerFailure("down") if isinstance(command, refused) else scene.bench.accept(command)

    driven = scene.sync(answer, raises=CommandError)
    assert (reasons(driven), created(driven)) == ([reason], [])


def taken(scene: Scene, by: Object) -> Answer:
    """Return an answer of a server that has this Job, unknown to the table, under the slot's name."""

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create):
            return AlreadyExists("taken")
        if isinstance(command, Get) and command.resource == JOBS.id:
            return Done(encode_object({**by, "metadata": {"uid": "u", "resourceVersion": "7", **by["metadata"]}}))
        return scene.bench.accept(command)

    return answer


def test_existing_job_of_the_slot_is_recorded_as_active() -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")
    driven = scene.sync(taken(scene, job(name_at(TEN))))
    assert status_of(driven)["lastScheduleTime"] == TEN
    assert [each["uid"] for each in status_of(driven)["active"]] == ["u"]
    assert (reasons(driven), scene.skews, after(driven)) == ([], [], 59 * 60 + 0.1)


def test_foreign_job_of_the_same_name_skips_the_slot() -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")
    driven = scene.sync(taken(scene, job(name_at(TEN), owner="another")))
    assert (driven.of(Create) != [], reasons(driven), after(driven)) == (True, [], 59 * 60 + 0.1)
    assert "status" not in str(driven.commands[-1])


def test_failed_creation_is_reported_and_the_status_is_written() -> None:
    done = job("done", end="Complete", at=DAY + "09:30:00Z")
    scene = Scene(cron_job(), done, now=DAY + "10:01:00Z")
    no = Forbidden("exceeded quota")
    driven = scene.sync(lambda c: no if isinstance(c, Create) else scene.bench.accept(c), raises=CommandError)
    assert driven.events == [("Warning", "FailedCreate", "Error creating job: exceeded quota")]
    assert status_of(driven) == {"lastSuccessfulTime": DAY + "09:30:00Z"}


def test_creation_in_a_terminating_namespace_records_no_event() -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")
    status = encode_object({"details": {"causes": [{"reason": "NamespaceTerminating"}]}})
    no = Forbidden("terminating", status)
    driven = scene.sync(lambda c: no if isinstance(c, Create) else scene.bench.accept(c), raises=CommandError)
    assert driven.events == []


@pytest.mark.parametrize(
    "live",
    [
        cron_job(last=TEN),
        cron_job(suspend=True),
        {**cron_job(), "metadata": {**cron_job()["metadata"], "uid": "another"}},
        None,
    ],
    ids=["started already", "suspended", "another one", "gone"],
)
def test_nothing_is_started_if_the_live_cron_job_differs(live: Object | None) -> None:
    scene = Scene(cron_job(), now=DAY + "10:01:00Z")

    def answer(command: Command) -> Outcome:
        if not (isinstance(command, Get) and command.resource == CRONJOBS.id):
            return scene.bench.accept(command)
        if live is None:
            return NotFound()
        return Done(
            encode_object({**live, "metadata": {"uid": "uid-of-cj", "resourceVersion": "900", **live["metadata"]}})
        )

    driven = scene.sync(answer)
    assert (driven.of(Create), after(driven)) == ([], 1.0)


def live_reads(driven: Driven) -> int:
    return sum(command.resource == CRONJOBS.id for command in driven.of(Get))


def test_cron_job_is_read_live_after_a_change_of_leader() -> None:
    scene = Scene(cron_job("* * * * *"), now=DAY + "09:59:55Z")
    scene.bench.clock.wall += 8
    scene.bench.hear()
    assert live_reads(scene.sync()) == 1
    scene.bench.clock.wall += 60
    driven = scene.sync()
    assert (len(driven.of(Create)), live_reads(driven)) == (1, 0)


def test_cron_job_is_read_live_while_the_watch_is_silent() -> None:
    scene = Scene(cron_job("* * * * *"), now=DAY + "09:59:00Z")
    scene.bench.hear()
    scene.bench.clock.advance(61)
    driven = scene.sync()
    assert (len(driven.of(Create)), live_reads(driven)) == (1, 1)


def test_cron_job_is_read_live_after_an_interrupted_sync() -> None:
    scene = Scene(cron_job("* * * * *"), now=DAY + "09:59:00Z")
    scene.bench.clock.wall += 61
    scene.bench.hear()
    lost = Unknown("cut")
    driven = scene.sync(lambda c: lost if isinstance(c, Update) else scene.bench.accept(c), raises=CommandError)
    assert (len(driven.of(Create)), live_reads(driven)) == (1, 0)
    scene.bench.hide(JOBS, f"default/{name_at(TEN)}")
    assert live_reads(scene.sync()) == 1
    scene.bench.clock.wall += 60
    assert live_reads(scene.sync()) == 0


@pytest.mark.parametrize(
    ("before", "schedule", "zone", "wait"),
    [
        ("30 * * * ?", "*/1 * * * ?", None, 1.1),
        ("@every 1m", "@every 3m", None, 121.1),
        ("@every 3m", "@every 1m", None, 1.1),
        ("0 12 * * *", "0 8 * * *", None, 22 * 3600 + 1.1),
        ("0 12 * * *", "0 12 * * *", "Europe/Berlin", 1.1),
    ],
)
def test_slots_before_a_change_of_the_schedule_are_not_started(
    before: str, schedule: str, zone: str | None, wait: float
) -> None:
    given = cron_job(before, last=DAY + "09:59:00Z")
    given = given if "12" not in before else cron_job(before, created=DAY + "07:00:00Z")
    scene = Scene(given, now=DAY + "09:59:00Z")
    scene.sync()
    more = {} if zone is None else {"timeZone": zone}
    scene.bench.show(CRONJOBS, {**given, "spec": {**given["spec"], "schedule": schedule, **more}})
    scene.bench.clock.wall += 59
    driven = scene.sync()
    assert (created(driven), after(driven)) == ([], wait)


def test_invalid_new_schedule_is_reported() -> None:
    scene = Scene(cron_job(), now=DAY + "09:59:00Z")
    scene.sync()
    scene.bench.show(CRONJOBS, cron_job("no"))
    assert scene.sync().events == [
        ("Warning", "UnParseableCronJobSchedule", "unparseable schedule for cronjob: no"),
    ]


def test_deleted_cron_job_is_forgotten() -> None:
    scene = Scene(cron_job(), now=DAY + "09:59:00Z")
    scene.sync()
    scene.bench.hide(CRONJOBS, KEY)
    assert (scene.sync().commands, scene.sync().result) == ([], None)
