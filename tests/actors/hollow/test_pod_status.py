from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.hollow import behaviour, pod_status
from actors.hollow.pod_status import PodPlan, has_started, status_patch
from protocols.conditions import find_condition
from protocols.objects import Object
from protocols.times import format_time
from tests.actors.hollow.objects import bound

T = 1_800_000_000.0
HOST, POD = ["198.18.0.1"], ["100.64.0.2"]


def plan(pod: Object, *, now: float = T) -> PodPlan:
    return pod_status.running(pod, host_ips=HOST, pod_ips=POD, now=now)


def after(pod: Object, status: Object) -> Object:
    return {**pod, "status": {**pod["status"], **status}}


def conditions(status: Object) -> Object:
    return {one["type"]: (one["status"], one.get("reason")) for one in status["conditions"]}


ALL_WELL = {
    "PodReadyToStartContainers": ("True", None),
    "Initialized": ("True", None),
    "Ready": ("True", None),
    "ContainersReady": ("True", None),
    "PodScheduled": ("True", None),
}


def test_a_pod_without_delays_is_running_and_ready_in_one_step() -> None:
    status, due = plan(bound())
    assert status["phase"] == "Running"
    assert conditions(status) == ALL_WELL
    assert status["startTime"] == format_time(T)
    assert (status["hostIP"], status["hostIPs"]) == ("198.18.0.1", [{"ip": "198.18.0.1"}])
    assert (status["podIP"], status["podIPs"]) == ("100.64.0.2", [{"ip": "100.64.0.2"}])
    assert [one["name"] for one in status["containerStatuses"]] == ["web"]
    assert due is None


def test_a_pod_of_two_families_has_an_address_of_each() -> None:
    status, _ = pod_status.running(bound(), host_ips=HOST, pod_ips=["10.0.0.2", "fd00::2"], now=T)
    assert status["podIP"] == "10.0.0.2"
    assert status["podIPs"] == [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]


def test_the_generation_that_was_seen_is_told() -> None:
    pod = bound()
    pod["metadata"]["generation"] = 4
    assert plan(pod).status["observedGeneration"] == 4
    assert "observedGeneration" not in plan(bound()).status


def test_a_pod_that_is_not_ready_yet_says_which_containers_are_not() -> None:
    pod = bound(annotations={behaviour.READY_AFTER: "5"})
    status, due = plan(pod)
    assert status["phase"] == "Running"
    assert conditions(status)["Ready"] == conditions(status)["ContainersReady"] == ("False", "ContainersNotReady")
    assert find_condition(status["conditions"], "Ready")["message"] == "containers with unready status: [web]"
    assert due == T + 5
    later = plan(after(pod, status), now=T + 5).status
    assert conditions(later) == ALL_WELL
    assert find_condition(later["conditions"], "Ready")["lastTransitionTime"] == format_time(T + 5)
    assert find_condition(later["conditions"], "Initialized")["lastTransitionTime"] == format_time(T)


# policy, exit code, phase in the end
ENDS = [("Never", 0, "Succeeded"), ("Never", 2, "Failed"), ("OnFailure", 0, "Succeeded"), ("OnFailure", 2, "Running")]


@pytest.mark.parametrize("policy, code, phase", ENDS)
def test_a_pod_is_over_when_none_of_its_containers_will_run_again(policy: str, code: int, phase: str) -> None:
    pod = bound(restartPolicy=policy, annotations={behaviour.RUN_SECONDS: "7", behaviour.EXIT_CODE: str(code)})
    status, due = plan(pod)
    assert (status["phase"], due) == ("Running", T + 7)
    assert plan(after(pod, status), now=T + 7).status["phase"] == phase


def test_an_exit_code_alone_ends_the_pod_at_once() -> None:
    pod = bound(restartPolicy="Never", annotations={behaviour.EXIT_CODE: "0"})
    status, due = plan(pod)
    assert (status["phase"], due) == ("Succeeded", None)
    assert conditions(status) == {
        "PodReadyToStartContainers": ("False", None),
        "Initialized": ("True", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
        "PodScheduled": ("True", None),
    }


def test_a_failed_pod_says_so_in_its_conditions() -> None:
    pod = bound(restartPolicy="Never", annotations={behaviour.EXIT_CODE: "1"})
    assert conditions(plan(pod).status)["Ready"] == ("False", "PodFailed")


def test_init_containers_are_done_and_sidecars_run() -> None:
    init = [{"name": "setup", "image": "a"}, {"name": "proxy", "image": "b", "restartPolicy": "Always"}]
    status = plan(bound(initContainers=init)).status
    setup, proxy = status["initContainerStatuses"]
    assert list(setup["state"]) == ["terminated"]
    assert list(proxy["state"]) == ["running"]
    assert conditions(status) == ALL_WELL


def test_sidecars_end_with_the_pod() -> None:
    init = [{"name": "proxy", "image": "b", "restartPolicy": "Always"}]
    pod = bound(initContainers=init, restartPolicy="Never", annotations={behaviour.EXIT_CODE: "0"})
    (proxy,) = plan(pod).status["initContainerStatuses"]
    assert list(proxy["state"]) == ["terminated"]


GATES = [
    ([], "False", 'corresponding condition of pod readiness gate "lb" does not exist.'),
    ([{"type": "lb", "status": "False"}], "False", 'the status of pod readiness gate "lb" is not "True", but False'),
    ([{"type": "lb", "status": "True"}], "True", None),
]


@pytest.mark.parametrize("present, ready, message", GATES)
def test_readiness_gates_hold_the_pod_back_but_not_its_containers(
    present: Sequence[Object], ready: str, message: str | None
) -> None:
    pod = bound(readinessGates=[{"conditionType": "lb"}])
    pod["status"]["conditions"] = present
    status = plan(pod).status
    condition = find_condition(status["conditions"], "Ready")
    assert (condition["status"], condition.get("message")) == (ready, message)
    assert conditions(status)["ContainersReady"] == ("True", None)


def test_a_condition_that_says_the_same_stays_to_the_last_field() -> None:
    pod = bound()
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01Z"}
    pod["status"]["conditions"] = [scheduled]
    assert find_condition(plan(pod).status["conditions"], "PodScheduled") == scheduled


def test_a_pod_that_was_marked_not_ready_is_marked_ready_again() -> None:
    pod = bound()
    pod = after(pod, plan(pod).status)
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    changes = status_patch(pod, plan(pod, now=T + 60).status)["status"]
    assert changes == {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": format_time(T + 60)}]}


def test_a_rejected_pod_has_failed_for_lack_of_cpu() -> None:
    status, due = pod_status.rejected(bound(), capacity_milli_cpu=32000, now=T)
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"].startswith("Pod was rejected: Node didn't have enough resource: cpu, requested: ")
    assert due is None


@pytest.mark.parametrize("killed, code, phase", [(False, 0, "Succeeded"), (True, 137, "Failed")])
def test_a_stopped_pod_is_over(killed: bool, code: int, phase: str) -> None:
    pod = bound(initContainers=[{"name": "proxy", "image": "b", "restartPolicy": "Always"}])
    status = pod_status.ended(after(pod, plan(pod).status), killed=killed, now=T + 9).status
    assert status["phase"] == phase
    assert [one["state"]["terminated"]["exitCode"] for one in status["containerStatuses"]] == [code]
    assert [list(one["state"]) for one in status["initContainerStatuses"]] == [["terminated"]]
    assert conditions(status)["Ready"][0] == "False"


@pytest.mark.parametrize(
    "annotations",
    [{}, {behaviour.READY_AFTER: "5"}, {behaviour.RUN_SECONDS: "3"}, {behaviour.EXIT_CODE: "1"}],
)
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("later", [0, 4, 9, 100])
def test_what_was_written_is_not_written_again(annotations: Object, policy: str, later: int) -> None:
    pod = bound(annotations=annotations, restartPolicy=policy)
    pod = after(pod, plan(pod).status)
    pod = after(pod, plan(pod, now=T + later).status)
    assert status_patch(pod, plan(pod, now=T + later).status) is None


def test_a_patch_is_for_this_very_pod_and_holds_only_what_differs() -> None:
    pod = bound()
    pod["metadata"]["uid"] = "uid-1"
    pod = after(pod, plan(pod).status)
    patch = status_patch(pod, {"phase": "Failed", "startTime": format_time(T)})
    assert patch == {"metadata": {"uid": "uid-1"}, "status": {"phase": "Failed"}}


def test_a_pod_has_started_once_it_has_a_start_time() -> None:
    assert [has_started(bound()), has_started(after(bound(), {"startTime": "2026-01-01T00:00:00Z"}))] == [False, True]
