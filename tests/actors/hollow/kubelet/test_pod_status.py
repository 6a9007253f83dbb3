from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.kubelet import pod_status
from kcm.actors.hollow.kubelet.pod_status import (
    NO_MEMORIES,
    Memories,
    PodPlan,
    has_running,
    has_started,
    status_changes,
)
from kcm.protocols.conditions import find_condition
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time
from tests.actors.hollow.objects import bound

T = 1_800_000_000.0
HOST, POD = ["198.18.0.1"], ["240.0.0.2"]


def plan(pod: Object, *, now: float = T, memories: Memories = NO_MEMORIES) -> PodPlan:
    return pod_status.running(pod, host_ips=HOST, pod_ips=POD, now=now, memories=memories)


def after(pod: Object, status: Object) -> Object:
    return {**pod, "status": {**pod["status"], **status}}


def conditions(status: Object) -> Object:
    return {condition["type"]: (condition["status"], condition.get("reason")) for condition in status["conditions"]}


ALL_WELL = {
    "PodReadyToStartContainers": ("True", None),
    "Initialized": ("True", None),
    "Ready": ("True", None),
    "ContainersReady": ("True", None),
    "PodScheduled": ("True", None),
}


def test_pod_without_delays_is_running_and_ready_at_once() -> None:
    status, due, *_ = plan(bound())
    assert status["phase"] == "Running"
    assert conditions(status) == ALL_WELL
    assert status["startTime"] == format_time(T)
    assert (status["hostIP"], status["hostIPs"]) == ("198.18.0.1", [{"ip": "198.18.0.1"}])
    assert (status["podIP"], status["podIPs"]) == ("240.0.0.2", [{"ip": "240.0.0.2"}])
    assert [container_status["name"] for container_status in status["containerStatuses"]] == ["web"]
    assert due is None


def test_a_pod_of_two_families_has_an_address_of_each() -> None:
    status, *_ = pod_status.running(bound(), host_ips=HOST, pod_ips=["10.0.0.2", "fd00::2"], now=T)
    assert status["podIP"] == "10.0.0.2"
    assert status["podIPs"] == [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]


def test_status_contains_the_observed_generation() -> None:
    pod = bound()
    pod["metadata"]["generation"] = 4
    assert plan(pod).status["observedGeneration"] == 4
    assert "observedGeneration" not in plan(bound()).status


def test_unready_pod_names_its_unready_containers() -> None:
    pod = bound(annotations={behaviour.READY_AFTER: "5"})
    status, due, *_ = plan(pod)
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
def test_pod_is_terminal_when_no_container_will_run_again(policy: str, code: int, phase: str) -> None:
    pod = bound(restartPolicy=policy, annotations={behaviour.RUN_SECONDS: "7", behaviour.EXIT_CODE: str(code)})
    status, due, *_ = plan(pod)
    assert (status["phase"], due) == ("Running", T + 7)
    assert plan(after(pod, status), now=T + 7).status["phase"] == phase


def test_an_exit_code_alone_ends_the_pod_at_once() -> None:
    pod = bound(restartPolicy="Never", annotations={behaviour.EXIT_CODE: "0"})
    status, due, *_ = plan(pod)
    assert (status["phase"], due) == ("Succeeded", None)
    assert conditions(status) == {
        "PodReadyToStartContainers": ("False", None),
        "Initialized": ("True", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
        "PodScheduled": ("True", None),
    }


def test_failed_pod_has_the_reason_pod_failed() -> None:
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
def test_readiness_gates_delay_the_pod_but_not_its_containers(
    present: Sequence[Object], ready: str, message: str | None
) -> None:
    pod = bound(readinessGates=[{"conditionType": "lb"}])
    pod["status"]["conditions"] = present
    status = plan(pod).status
    condition = find_condition(status["conditions"], "Ready")
    assert (condition["status"], condition.get("message")) == (ready, message)
    assert conditions(status)["ContainersReady"] == ("True", None)


def test_unchanged_condition_is_kept_with_all_fields() -> None:
    pod = bound()
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01Z"}
    pod["status"]["conditions"] = [scheduled]
    assert find_condition(plan(pod).status["conditions"], "PodScheduled") == scheduled


def test_pod_marked_unready_by_others_becomes_ready_again() -> None:
    pod = bound()
    pod = after(pod, plan(pod).status)
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    changes = status_changes(pod, plan(pod, now=T + 60).status)
    assert changes["conditions"] == [{"type": "Ready", "status": "True", "lastTransitionTime": format_time(T + 60)}]


def test_foreign_conditions_precede_those_of_the_kubelet() -> None:
    pod = bound()
    pod["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True"},
        {"type": "DisruptionTarget", "status": "True"},
    ]
    order = status_changes(pod, plan(pod).status)["$setElementOrder/conditions"]
    assert [entry["type"] for entry in order] == [
        "DisruptionTarget",
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]


def test_a_rejected_pod_has_failed_for_lack_of_cpu() -> None:
    status, due, *_ = pod_status.rejected(bound(), capacity_milli_cpu=32000, now=T)
    assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
    assert status["message"].startswith("Pod was rejected: Node didn't have enough resource: cpu, requested: ")
    assert due is None


@pytest.mark.parametrize("killed, code, phase", [(False, 0, "Succeeded"), (True, 137, "Failed")])
def test_a_stopped_pod_is_over(killed: bool, code: int, phase: str) -> None:
    pod = bound(initContainers=[{"name": "proxy", "image": "b", "restartPolicy": "Always"}])
    status = pod_status.ended(after(pod, plan(pod).status), killed=killed, now=T + 9).status
    assert status["phase"] == phase
    assert [
        container_status["state"]["terminated"]["exitCode"] for container_status in status["containerStatuses"]
    ] == [code]
    assert [list(container_status["state"]) for container_status in status["initContainerStatuses"]] == [["terminated"]]
    assert conditions(status)["Ready"][0] == "False"


@pytest.mark.parametrize(
    "annotations",
    [{}, {behaviour.READY_AFTER: "5"}, {behaviour.RUN_SECONDS: "3"}, {behaviour.EXIT_CODE: "1"}],
)
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("later", [0, 4, 9, 100])
def test_unchanged_status_is_not_written_again(annotations: Object, policy: str, later: int) -> None:
    pod = bound(annotations=annotations, restartPolicy=policy)
    pod = after(pod, plan(pod).status)
    pod = after(pod, plan(pod, now=T + later).status)
    assert status_changes(pod, plan(pod, now=T + later).status) == {}


def test_only_what_differs_is_written() -> None:
    pod = bound()
    pod = after(pod, plan(pod).status)
    assert status_changes(pod, {"phase": "Failed", "startTime": format_time(T)}) == {"phase": "Failed"}


def test_pod_with_a_start_time_has_started() -> None:
    assert [has_started(bound()), has_started(after(bound(), {"startTime": "2026-01-01T00:00:00Z"}))] == [False, True]


# Init containers and sidecars.


def container(name: str, *command: str, **fields: object) -> Object:
    return {"name": name, "image": "a", **({"command": list(command)} if command else {}), **fields}


def sidecar(name: str = "proxy", *command: str, **fields: object) -> Object:
    return container(name, *command, restartPolicy="Always", **fields)


def states(statuses: list[Object]) -> dict[str, str]:
    """Return the state of each container by name: "running", or the reason of another state."""
    return {status["name"]: next(iter(status["state"].values())).get("reason", "running") for status in statuses}


class Story:
    """Pod that is synced whenever its kubelet would sync it, with the recorded events."""

    def __init__(self, pod: Object) -> None:
        self.pod, self.memories = pod, NO_MEMORIES
        self.events: list[str] = []
        self.due: float | None = T

    def until(self, age: float) -> Object:
        """Sync the pod until this many seconds after its start, and return its status."""
        while self.due is not None and self.due <= T + age:
            self._look(self.due)
        self._look(T + age)
        status: Object = self.pod["status"]
        return status

    def _look(self, now: float) -> None:
        if self.pod["status"].get("phase") in ("Succeeded", "Failed"):
            return
        looked = plan(self.pod, now=now, memories=self.memories)
        self.pod = after(self.pod, looked.status)
        self.due, self.memories = looked.due, looked.memories
        self.events += [f"{event.container} {event.reason}" for event in looked.events]
        again = plan(self.pod, now=now, memories=self.memories)
        assert again.status["phase"] in ("Succeeded", "Failed") or not status_changes(self.pod, again.status)


def test_init_containers_run_in_order_before_the_others() -> None:
    init = [container("one", "sleep", "5"), container("two", "sleep", "3")]
    story = Story(bound(initContainers=init))
    status = story.until(0)
    assert states(status["initContainerStatuses"]) == {"one": "running", "two": "PodInitializing"}
    assert states(status["containerStatuses"]) == {"web": "PodInitializing"}
    assert (status["phase"], conditions(status)["Initialized"]) == ("Pending", ("False", "ContainersNotInitialized"))
    message = find_condition(status["conditions"], "Initialized")["message"]
    assert message == "containers with incomplete status: [one two]"
    assert conditions(status)["PodReadyToStartContainers"] == ("True", None)
    status = story.until(5)
    assert states(status["initContainerStatuses"]) == {"one": "Completed", "two": "running"}
    status = story.until(8)
    assert (status["phase"], story.due) == ("Running", None)
    assert states(status["initContainerStatuses"]) == {"one": "Completed", "two": "Completed"}
    assert conditions(status) == ALL_WELL
    assert find_condition(status["conditions"], "Initialized")["lastTransitionTime"] == format_time(T + 8)


def test_an_init_container_that_fails_ends_a_pod_that_is_never_restarted() -> None:
    init = [sidecar(), container("setup", "false"), container("late")]
    story = Story(bound(initContainers=init, restartPolicy="Never"))
    status = story.until(0)
    assert (status["phase"], story.due) == ("Failed", None)
    assert states(status["initContainerStatuses"]) == {
        "proxy": "Completed",
        "setup": "Error",
        "late": "PodInitializing",
    }
    assert states(status["containerStatuses"]) == {"web": "PodInitializing"}
    assert conditions(status)["Initialized"] == ("False", "ContainersNotInitialized")
    assert conditions(status)["Ready"] == ("False", "PodFailed")


@pytest.mark.parametrize("policy", ["Always", "OnFailure"])
def test_failed_init_container_is_retried(policy: str) -> None:
    story = Story(bound(initContainers=[container("setup", "false")], restartPolicy=policy))
    status = story.until(60)
    assert (status["phase"], states(status["initContainerStatuses"])) == ("Pending", {"setup": "CrashLoopBackOff"})
    assert status["initContainerStatuses"][0]["restartCount"] == 3
    assert states(status["containerStatuses"]) == {"web": "PodInitializing"}
    assert set(story.events) == {"setup BackOff"}


def test_succeeded_init_container_is_not_restarted_with_policy_always() -> None:
    story = Story(bound(initContainers=[container("setup", "true")]))
    status = story.until(600)
    assert (status["phase"], status["initContainerStatuses"][0]["restartCount"]) == ("Running", 0)


def test_init_containers_stay_as_they_were_while_containers_restart() -> None:
    pod = bound(initContainers=[container("setup", "sleep", "2")], annotations={f"web.{behaviour.EXIT_CODE}": "1"})
    story = Story(pod)
    first = story.until(2)["initContainerStatuses"]
    status = story.until(300)
    assert status["initContainerStatuses"] == first
    assert status["containerStatuses"][0]["restartCount"] == 5
    assert (status["phase"], conditions(status)["Initialized"]) == ("Running", ("True", None))


def test_a_sidecar_has_to_start_up_before_the_next_and_runs_on() -> None:
    probe = {"startupProbe": {"exec": {}, "periodSeconds": 2, "failureThreshold": 30}}
    init = [sidecar("proxy", **probe), container("setup", "sleep", "1")]
    story = Story(bound(initContainers=init, annotations={f"proxy.{behaviour.START_SECONDS}": "7"}))
    status = story.until(0)
    assert states(status["initContainerStatuses"]) == {"proxy": "running", "setup": "PodInitializing"}
    status = story.until(8)
    assert states(status["initContainerStatuses"]) == {"proxy": "running", "setup": "running"}
    status = story.until(9)
    assert states(status["initContainerStatuses"]) == {"proxy": "running", "setup": "Completed"}
    assert conditions(status) == ALL_WELL


def test_a_sidecar_that_is_not_ready_keeps_its_pod_from_being_ready() -> None:
    pod = bound(initContainers=[sidecar()], annotations={f"proxy.{behaviour.READY}": "false"})
    status = Story(pod).until(0)
    assert (status["phase"], conditions(status)["Ready"]) == ("Running", ("False", "ContainersNotReady"))
    assert find_condition(status["conditions"], "Ready")["message"] == "containers with unready status: [proxy]"


def test_crashed_sidecar_is_restarted_and_ends_with_the_pod() -> None:
    pod = bound(initContainers=[sidecar("proxy", "sleep", "5")], restartPolicy="Never")
    pod["spec"]["containers"][0]["command"] = ["sleep", "60"]
    story = Story(pod)
    status = story.until(20)
    assert (status["phase"], status["initContainerStatuses"][0]["restartCount"]) == ("Running", 2)
    status = story.until(60)
    assert (status["phase"], story.due) == ("Succeeded", None)
    assert states(status["initContainerStatuses"]) == {"proxy": "Completed"}


# Phases of pods with several containers.


@pytest.mark.parametrize(
    "commands, policy, phases",
    [
        ((["sleep", "1"], ["sleep", "3"]), "Never", ["Running", "Running", "Succeeded"]),
        ((["false"], ["sleep", "3"]), "Never", ["Running", "Running", "Failed"]),
        ((["false"], ["sleep", "3"]), "OnFailure", ["Running", "Running", "Running"]),
        ((["true"], ["true"]), "OnFailure", ["Succeeded", "Succeeded", "Succeeded"]),
        ((["true"], ["true"]), "Always", ["Running", "Running", "Running"]),
    ],
)
def test_the_phase_is_that_of_all_containers(commands: tuple[list[str], ...], policy: str, phases: list[str]) -> None:
    pod = bound(restartPolicy=policy)
    pod["spec"]["containers"] = [container(f"c{index}", *words) for index, words in enumerate(commands)]
    story = Story(pod)
    assert [story.until(age)["phase"] for age in (0, 1, 3)] == phases


def test_containers_are_reported_by_name() -> None:
    pod = bound()
    pod["spec"]["containers"] = [container("b"), container("a")]
    assert [status["name"] for status in Story(pod).until(0)["containerStatuses"]] == ["a", "b"]


def test_pod_with_a_missing_image_is_pending_and_retried_with_backoff() -> None:
    pod = bound()
    pod["spec"]["containers"] = [container("b"), container("a", image="web:404")]
    story = Story(pod)
    status = story.until(0)
    assert (status["phase"], states(status["containerStatuses"])) == ("Pending", {"a": "ErrImagePull", "b": "running"})
    assert conditions(status)["Ready"] == ("False", "ContainersNotReady")
    assert find_condition(status["conditions"], "Ready")["message"] == "containers with unready status: [a]"
    status = story.until(3600)
    assert states(status["containerStatuses"]) == {"a": "ImagePullBackOff", "b": "running"}
    assert story.events.count("a Pulling") == 16


# Termination of pods.


def test_a_pod_that_is_active_for_too_long_has_failed() -> None:
    pod = bound(activeDeadlineSeconds=30, initContainers=[sidecar()])
    story = Story(pod)
    assert (story.until(29)["phase"], story.due) == ("Running", T + 30)
    status = story.until(30)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    assert conditions(status)["Ready"] == ("False", "PodFailed")
    assert story.events == [" DeadlineExceeded"]


def ending(**spec: object) -> Object:
    """Return the final status of a pod that is deleted after 12 s."""
    pod = bound()
    pod["spec"].update(spec)
    story = Story(pod)
    story.until(12)
    return pod_status.ended(story.pod, killed=False, now=T + 12).status


def test_pod_waiting_for_its_image_fails_when_deleted() -> None:
    status = ending(containers=[container("web", image="web:404")])
    assert (status["phase"], states(status["containerStatuses"])) == ("Failed", {"web": "ContainerStatusUnknown"})


def test_a_pod_in_a_crash_loop_ends_as_its_container_did() -> None:
    status = ending(containers=[container("web", "sh", "-c", "exit 3")])
    assert status["phase"] == "Failed"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_pod_deleted_during_initialization_fails() -> None:
    status = ending(initContainers=[container("one", "sleep", "60"), container("two")])
    assert status["phase"] == "Failed"
    assert states(status["initContainerStatuses"]) == {"one": "Completed", "two": "PodInitializing"}
    assert states(status["containerStatuses"]) == {"web": "PodInitializing"}


@pytest.mark.parametrize("command, runs", [(["sleep", "60"], True), (["false"], False)])
def test_only_running_containers_need_time_to_stop(command: list[str], runs: bool) -> None:
    pod = bound()
    assert has_running(pod) is False
    pod["spec"]["containers"][0]["command"] = command
    story = Story(pod)
    story.until(3)
    assert has_running(story.pod) is runs
