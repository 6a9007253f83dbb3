from __future__ import annotations

import pytest

from actors.hollow.containers import FOR_EVER, Life, Script, backoff, completed, live, restarts_after, stopped
from protocols.objects import Object
from protocols.times import format_time

CONTAINER = {"name": "web", "image": "nginx"}
T = 1_800_000_000.0


def look(before: Object | None, script: Script = FOR_EVER, *, now: float = T, policy: str = "Always") -> Life:
    return live(CONTAINER, before, script, uid="uid-1", restart_policy=policy, now=now)


def state_of(life: Life) -> str:
    (state,) = life.status["state"]
    return state


def test_a_container_runs_for_ever_if_nobody_says_otherwise() -> None:
    life = look(None)
    assert life.status["state"] == {"running": {"startedAt": format_time(T)}}
    assert (life.status["ready"], life.status["started"], life.status["restartCount"]) == (True, True, 0)
    assert life.due is None


def test_image_and_container_are_named_as_by_a_runtime() -> None:
    status = look(None).status
    assert status["imageID"].startswith("hollow://sha256:")
    assert status["containerID"].startswith("hollow://")
    other = live(CONTAINER, None, FOR_EVER, uid="uid-2", restart_policy="Always", now=T).status
    assert other["imageID"] == status["imageID"]
    assert other["containerID"] != status["containerID"]


def test_it_is_ready_only_after_its_delay() -> None:
    script = Script(ready_after=5)
    first = look(None, script)
    assert (first.status["ready"], first.due) == (False, T + 5)
    assert look(first.status, script, now=T + 4.9).status["ready"] is False
    after = look(first.status, script, now=T + 5)
    assert (after.status["ready"], after.due) == (True, None)
    assert after.status["state"] == first.status["state"]


# policy, exit code, what it is at once after the end
ENDS = [
    ("Never", 0, "terminated", "Completed"),
    ("Never", 3, "terminated", "Error"),
    ("OnFailure", 0, "terminated", "Completed"),
    ("OnFailure", 3, "running", None),
    ("Always", 0, "running", None),
    ("Always", 3, "running", None),
]


@pytest.mark.parametrize("policy, code, state, reason", ENDS)
def test_what_follows_a_containers_end_is_up_to_the_restart_policy(
    policy: str, code: int, state: str, reason: str | None
) -> None:
    script = Script(run_seconds=10, exit_code=code)
    first = look(None, script, policy=policy)
    assert first.due == T + 10
    after = look(first.status, script, now=T + 10, policy=policy)
    assert state_of(after) == state
    assert after.status["restartCount"] == (1 if state == "running" else 0)
    ended = after.status["state"].get("terminated") or after.status["lastState"]["terminated"]
    assert ended["exitCode"] == code
    assert ended["finishedAt"] == format_time(T + 10)
    if reason is not None:
        assert ended["reason"] == reason
        assert after.due is None


def test_a_container_that_keeps_failing_waits_longer_each_time() -> None:
    script, now, status = Script(run_seconds=0, exit_code=1), T, None
    waits = []
    for _ in range(7):
        life = look(status, script, now=now)
        assert life.status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert look(life.status, script, now=life.due - 1).status == life.status
        waits.append(life.due - now)
        status, now = life.status, life.due
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    assert status["restartCount"] == 7


def test_the_first_restart_is_at_once() -> None:
    assert [backoff(restarts) for restarts in (0, 1, 2, 5, 6, 10_000)] == [0, 10, 20, 160, 300, 300]


def test_an_end_that_was_overslept_is_dated_when_it_was_due() -> None:
    script = Script(run_seconds=10)
    first = look(None, script, policy="Never")
    after = look(first.status, script, now=T + 500, policy="Never")
    assert after.status["state"]["terminated"]["finishedAt"] == format_time(T + 10)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("script", [FOR_EVER, Script(run_seconds=5, exit_code=1), Script(ready_after=3)])
@pytest.mark.parametrize("after", [0, 4, 6, 20])
def test_looking_twice_at_one_moment_changes_nothing(policy: str, script: Script, after: int) -> None:
    status = look(None, script, policy=policy).status
    once = look(status, script, now=T + after, policy=policy)
    assert look(once.status, script, now=T + after, policy=policy) == once


def test_an_init_container_is_done_at_once_and_stays_so() -> None:
    status = completed(CONTAINER, None, uid="uid-1", now=T)
    assert status["state"]["terminated"]["exitCode"] == 0
    assert status["ready"] is True
    assert completed(CONTAINER, status, uid="uid-1", now=T + 60) == status


def test_a_container_that_is_stopped_has_its_code_and_is_not_ready() -> None:
    status = stopped(look(None).status, exit_code=137, now=T + 30)
    terminated = status["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "Error")
    assert (terminated["startedAt"], terminated["finishedAt"]) == (format_time(T), format_time(T + 30))
    assert (status["ready"], status["started"]) == (False, False)


def test_a_container_that_had_ended_is_not_stopped_again() -> None:
    before = look(look(None).status, Script(run_seconds=0), now=T + 5, policy="Never").status
    assert stopped(before, exit_code=137, now=T + 30) == before


def test_only_failures_are_restarted_on_failure() -> None:
    assert [restarts_after("OnFailure", code) for code in (0, 1)] == [False, True]
