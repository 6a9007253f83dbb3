from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.hollow.kubelet.container_runs import Script
from kcm.actors.hollow.kubelet.containers import (
    FOR_EVER,
    NOTHING,
    Life,
    Memory,
    PodContext,
    backoff,
    initialising,
    live,
    restarts_after,
    stopped,
)
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time

CONTAINER = {"name": "web", "image": "nginx"}
T = 1_800_000_000.0


def look(
    before: Object | None,
    script: Script = FOR_EVER,
    *,
    now: float = T,
    policy: str = "Always",
    memory: Memory = NOTHING,
    unpullable: tuple[str, ...] = (),
    uid: str = "uid-1",
    **container: Any,
) -> Life:
    pod = {"metadata": {"name": "web", "namespace": "default"}}
    context = PodContext(pod, uid, policy, unpullable, now)
    return live({**CONTAINER, **container}, before, lambda _: script, context, memory)


def said(life: Life) -> list[tuple[str, str, str]]:
    return [(event.type, event.reason, event.message) for event in life.events]


def state_of(life: Life) -> str:
    (state,) = life.status["state"]
    return state


def test_container_without_script_runs_forever() -> None:
    life = look(None)
    assert life.status["state"] == {"running": {"startedAt": format_time(T)}}
    assert (life.status["ready"], life.status["started"], life.status["restartCount"]) == (True, True, 0)
    assert life.due is None


def test_image_and_container_are_named_as_by_a_runtime() -> None:
    status = look(None).status
    assert status["imageID"].startswith("hollow://sha256:")
    assert status["containerID"].startswith("hollow://")
    other = look(None, uid="uid-2").status
    assert other["imageID"] == status["imageID"]
    assert other["containerID"] != status["containerID"]


def test_container_is_ready_after_its_delay() -> None:
    script = Script(ready_after=5)
    first = look(None, script)
    assert (first.status["ready"], first.due) == (False, T + 5)
    assert look(first.status, script, now=T + 4.9).status["ready"] is False
    after = look(first.status, script, now=T + 5)
    assert (after.status["ready"], after.due) == (True, None)
    assert after.status["state"] == first.status["state"]


# policy, exit code, state right after the end
ENDS = [
    ("Never", 0, "terminated", "Completed"),
    ("Never", 3, "terminated", "Error"),
    ("OnFailure", 0, "terminated", "Completed"),
    ("OnFailure", 3, "running", None),
    ("Always", 0, "running", None),
    ("Always", 3, "running", None),
]


@pytest.mark.parametrize("policy, code, state, reason", ENDS)
def test_terminated_container_is_restarted_according_to_policy(
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


def test_late_sync_dates_the_end_of_a_container_when_it_was_due() -> None:
    script = Script(run_seconds=10)
    first = look(None, script, policy="Never")
    after = look(first.status, script, now=T + 500, policy="Never")
    assert after.status["state"]["terminated"]["finishedAt"] == format_time(T + 10)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("script", [FOR_EVER, Script(run_seconds=5, exit_code=1), Script(ready_after=3)])
@pytest.mark.parametrize("after", [0, 4, 6, 20])
def test_second_sync_at_the_same_time_changes_nothing(policy: str, script: Script, after: int) -> None:
    status = look(None, script, policy=policy).status
    once = look(status, script, now=T + after, policy=policy)
    assert look(once.status, script, now=T + after, policy=policy) == once


def test_a_container_that_is_stopped_has_its_code_and_is_not_ready() -> None:
    status = stopped(look(None).status, exit_code=137, now=T + 30)
    terminated = status["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (137, "Error")
    assert (terminated["startedAt"], terminated["finishedAt"]) == (format_time(T), format_time(T + 30))
    assert (status["ready"], status["started"]) == (False, False)


def test_terminated_container_is_not_stopped_again() -> None:
    before = look(look(None).status, Script(run_seconds=0), now=T + 5, policy="Never").status
    assert stopped(before, exit_code=137, now=T + 30) == before


@pytest.mark.parametrize(
    "container, code, again",
    [
        ({}, 0, False),
        ({}, 1, True),
        ({"restartPolicy": "Never"}, 1, False),
        ({"restartPolicy": "Always"}, 0, True),
        ({"restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}, 42, True),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
            },
            1,
            False,
        ),
        (
            {
                "restartPolicy": "Never",
                "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [42]}}],
            },
            1,
            True,
        ),
    ],
)
def test_a_containers_own_policy_and_rules_go_before_the_pods(container: Object, code: int, again: bool) -> None:
    assert restarts_after(container, "OnFailure", code) is again


def test_crash_loop_has_the_kubelets_state_and_event() -> None:
    life = look(None, Script(run_seconds=0, exit_code=1))
    assert life.status["state"]["waiting"] == {
        "reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=web pod=web_default(uid-1)",
    }
    assert life.status["restartCount"] == 1
    assert said(life) == [
        ("Warning", "BackOff", "Back-off restarting failed container web in pod web_default(uid-1)"),
    ]
    assert look(life.status, Script(run_seconds=0, exit_code=1), now=T + 5).events == []


def test_longest_backoff_is_formatted_as_a_go_duration() -> None:
    script, now, status = Script(run_seconds=0, exit_code=1), T, None
    messages = []
    for _ in range(6):
        life = look(status, script, now=now)
        messages.append(life.status["state"]["waiting"]["message"].split()[1])
        status, now = life.status, life.due
    assert messages == ["10s", "20s", "40s", "1m20s", "2m40s", "5m0s"]


def test_a_container_that_ran_for_long_is_forgiven_its_earlier_failures() -> None:
    quick, long = Script(run_seconds=0, exit_code=1), Script(run_seconds=700, exit_code=1)
    life, now = look(None, quick), T
    for _ in range(4):
        now = life.due
        life = look(life.status, quick, now=now)
    assert life.status["restartCount"] == 5
    now = life.due
    runs = look(life.status, long, now=now)
    assert (state_of(runs), runs.due) == ("running", now + 700)
    now += 700
    again = look(runs.status, long, now=now)
    assert (state_of(again), again.status["restartCount"], again.memory) == ("running", 7, Memory(forgiven=6))
    failed = look(again.status, quick, now=now, memory=again.memory)
    assert failed.due == now + 10


# Images.

BAD = "nginx:404"


def test_failed_image_pull_is_retried_with_backoff() -> None:
    life, now = look(None, image=BAD), T
    assert life.status["state"]["waiting"]["reason"] == "ErrImagePull"
    assert "containerID" not in life.status
    assert (life.status["imageID"], life.status["ready"], life.status["started"]) == ("", False, False)
    assert [event[:2] for event in said(life)] == [("Normal", "Pulling"), ("Warning", "Failed"), ("Warning", "Failed")]
    reasons, attempts = [], []
    for _ in range(14):
        now = life.due
        life = look(life.status, image=BAD, now=now, memory=life.memory)
        reasons.append(life.status["state"]["waiting"]["reason"])
        if reasons[-1] == "ErrImagePull":
            attempts.append(now - T)
    assert reasons == ["ImagePullBackOff", "ErrImagePull"] * 7
    assert attempts == [10, 30, 70, 150, 310, 610, 910]
    assert life.status["restartCount"] == 0


def test_image_pull_backoff_is_reported_once() -> None:
    first = look(None, image=BAD)
    second = look(first.status, image=BAD, now=T + 5, memory=first.memory)
    assert said(second) == [
        ("Normal", "BackOff", 'Back-off pulling image "nginx:404"'),
        ("Warning", "Failed", "Error: ImagePullBackOff"),
    ]
    message = second.status["state"]["waiting"]["message"]
    assert message.startswith('Back-off pulling image "nginx:404": ErrImagePull: failed to resolve reference')
    third = look(second.status, image=BAD, now=T + 7, memory=second.memory)
    assert (third.status, third.events) == (second.status, [])


def test_a_container_starts_once_its_image_can_be_pulled() -> None:
    first = look(None, unpullable=("ngin*",))
    assert state_of(first) == "waiting"
    after = look(first.status, now=T + 10, memory=first.memory)
    assert (state_of(after), after.status["restartCount"], after.memory) == ("running", 0, NOTHING)


def test_kubelet_without_memory_pulls_again() -> None:
    first = look(None, image=BAD)
    again = look(first.status, image=BAD, now=T + 3)
    assert again.memory.pull is not None
    assert (again.memory.pull.attempts, again.memory.pull.at) == (1, T + 3)


def test_another_image_restarts_the_container_whatever_the_policy() -> None:
    first = look(None, policy="Never")
    after = look(first.status, policy="Never", now=T + 60, image="nginx:2")
    assert (state_of(after), after.status["restartCount"], after.status["image"]) == ("running", 1, "nginx:2")
    assert after.status["lastState"]["terminated"]["finishedAt"] == format_time(T + 60)
    assert said(after) == [("Normal", "Killing", "Container web definition changed, will be restarted")]


def test_another_missing_image_keeps_the_last_state_of_the_container() -> None:
    first = look(None)
    after = look(first.status, now=T + 60, image=BAD)
    assert (state_of(after), after.status["restartCount"]) == ("waiting", 0)
    assert after.status["lastState"]["terminated"]["exitCode"] == 0
    corrected = look(after.status, now=T + 70, memory=after.memory)
    assert (state_of(corrected), corrected.status["restartCount"]) == ("running", 1)


# Probes.

LIVENESS = {"livenessProbe": {"httpGet": {}, "periodSeconds": 5, "failureThreshold": 2}}
STARTUP = {"startupProbe": {"httpGet": {}, "periodSeconds": 10, "failureThreshold": 3}}
READINESS = {"readinessProbe": {"httpGet": {}, "initialDelaySeconds": 4, "periodSeconds": 10}}


def test_probes_pass_by_default() -> None:
    life = look(None, **LIVENESS, **STARTUP)
    assert (life.status["ready"], life.status["started"], life.due) == (True, True, None)


def test_a_readiness_probe_passes_after_its_delay() -> None:
    life = look(None, **READINESS)
    assert (life.status["ready"], life.status["started"], life.due) == (False, True, T + 4)
    later = look(life.status, now=T + 4, **READINESS)
    assert (later.status["ready"], later.due, later.events) == (True, None, [])


def test_a_container_that_hangs_is_killed_and_restarted() -> None:
    script = Script(hang_after=20)
    life = look(None, script, **LIVENESS)
    assert (life.status["ready"], life.due) == (True, T + 25)
    after = look(life.status, script, now=T + 25, **LIVENESS)
    assert (state_of(after), after.status["restartCount"], after.due) == ("running", 1, T + 25 + 25)
    assert after.status["lastState"]["terminated"]["exitCode"] == 137
    assert said(after) == [
        ("Warning", "Unhealthy", "Liveness probe failed: no answer"),
        ("Normal", "Killing", "Container web failed liveness probe, will be restarted"),
    ]


def test_a_container_that_hangs_under_the_policy_never_has_failed() -> None:
    script = Script(hang_after=0)
    life = look(look(None, script, policy="Never", **LIVENESS).status, script, policy="Never", now=T + 5, **LIVENESS)
    assert (state_of(life), life.status["state"]["terminated"]["exitCode"]) == ("terminated", 137)
    assert said(life)[1][2] == "Container web failed liveness probe"


def test_a_container_without_a_liveness_probe_may_hang() -> None:
    assert look(None, Script(hang_after=20)).due is None


def test_a_container_that_is_slow_to_start_is_started_when_its_startup_probe_passes() -> None:
    script = Script(start_seconds=12)
    life = look(None, script, **STARTUP, **LIVENESS)
    assert (life.status["ready"], life.status["started"], life.due) == (False, False, T + 20)
    after = look(life.status, script, now=T + 20, **STARTUP, **LIVENESS)
    assert (after.status["ready"], after.status["started"], after.due) == (True, True, None)


def test_a_container_that_is_too_slow_to_start_is_killed_by_its_startup_probe() -> None:
    script = Script(start_seconds=60)
    life = look(None, script, **STARTUP)
    assert life.due == T + 20
    after = look(life.status, script, now=T + 20, **STARTUP)
    assert (after.status["restartCount"], said(after)[0][2]) == (1, "Startup probe failed: no answer")


def test_a_container_that_is_slow_to_start_is_killed_by_a_liveness_probe_that_cannot_wait() -> None:
    script = Script(start_seconds=60)
    life = look(None, script, **LIVENESS)
    assert life.due == T + 5


@pytest.mark.parametrize(
    "script, changes",
    [
        (Script(unready_after=7), [(0, True), (7, False)]),
        (Script(ready_after=3, unready_after=7), [(0, False), (3, True), (7, False)]),
        (Script(ready=False), [(0, False)]),
        (Script(flap=10), [(0, True), (10, False), (20, True), (30, False)]),
    ],
)
def test_readiness_is_a_function_of_time(script: Script, changes: list[tuple[int, bool]]) -> None:
    life, now = look(None, script), T
    seen = [(0, life.status["ready"])]
    while life.due is not None and len(seen) < 4:
        now = life.due
        life = look(life.status, script, now=now)
        seen.append((int(now - T), life.status["ready"]))
    assert seen == changes


def test_readiness_probe_fails_after_consecutive_failures() -> None:
    script = Script(unready_after=21)
    life = look(look(None, script, **READINESS).status, script, now=T + 4, **READINESS)
    assert (life.status["ready"], life.due) == (True, T + 44)  # probes at 24, 34 and 44
    after = look(life.status, script, now=T + 44, **READINESS)
    assert (after.status["ready"], said(after)) == (
        False,
        [("Warning", "Unhealthy", "Readiness probe failed: no answer")],
    )


# The end of a pod.


def test_container_waiting_for_its_restart_keeps_its_exit_code() -> None:
    life = look(None, Script(run_seconds=0, exit_code=3))
    assert stopped(life.status, exit_code=0, now=T + 1)["state"]["terminated"]["exitCode"] == 3


def test_a_container_that_never_ran_ends_with_an_error() -> None:
    life = look(None, image=BAD)
    over = stopped(life.status, exit_code=0, now=T + 1)["state"]["terminated"]
    assert (over["exitCode"], over["reason"]) == (137, "ContainerStatusUnknown")


def test_container_that_never_started_stays_waiting() -> None:
    waiting = initialising(CONTAINER, None)
    assert waiting["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert stopped(waiting, exit_code=0, now=T, initialised=False) == waiting
