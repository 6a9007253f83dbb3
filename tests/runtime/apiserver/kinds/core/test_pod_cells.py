"""Table cells of pods. Cases of kubernetes pkg/printers/internalversion/printers_test.go, TestPrintPod* (v1.36)."""

from typing import Any

import pytest

from kcm.runtime.apiserver.kinds.core.pod import cells as pod_cells
from kcm.runtime.apiserver.kinds.core.pod import completion as pod_completion

NOW = 1_767_322_800.0  # 2026-01-02T03:00:00Z
AN_HOUR_AGO = "2026-01-02T02:00:00Z"
TEN_SECONDS_AGO = "2026-01-02T02:59:50Z"
RUNNING = {"running": {"startedAt": AN_HOUR_AGO}}


def container(state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {"name": status.pop("name", "c"), "state": state or {}, **status}


def ready(**status: Any) -> dict[str, Any]:
    return container(RUNNING, ready=True, **status)


def terminated(code: int, **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **more}}


def ended(when: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": 1, "finishedAt": when}}


def condition(type_: str, status: str = "True", **more: str) -> dict[str, str]:
    return {"type": type_, "status": status, **more}


def pod_with(
    *containers: dict[str, Any],
    phase: str = "Running",
    count: int = 2,
    spec: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """Return a pod with these container statuses.

    count: number of containers in the spec
    status: further fields of the status
    """
    return {
        "metadata": {"name": "web", "creationTimestamp": AN_HOUR_AGO, **(meta or {})},
        "spec": {"containers": [{"name": f"c{i}"} for i in range(count)], **(spec or {})},
        "status": {"phase": phase, "containerStatuses": list(containers), **status},
    }


def shown(obj: dict[str, Any]) -> tuple[str, str, str]:
    """Return the cells of the columns Ready, Status and Restarts."""
    cells = pod_cells(obj, NOW)
    return cells[1], cells[2], cells[3]


@pytest.mark.parametrize(
    "obj, expected",
    [
        (pod_with(phase="Pending"), ("0/2", "Pending", "0")),
        (pod_with(phase=""), ("0/2", "", "0")),
        (pod_with(ready(), ready()), ("2/2", "Running", "0")),
        (pod_with(ready(), container(RUNNING, ready=False)), ("1/2", "Running", "0")),
        (pod_with(reason="Evicted", phase="Failed"), ("0/2", "Evicted", "0")),
        (pod_with(ready(restartCount=3)), ("1/2", "Running", "3")),
        (
            pod_with(ready(restartCount=3, lastState=ended(TEN_SECONDS_AGO)), ready(restartCount=1)),
            ("2/2", "Running", "4 (10s ago)"),
        ),
        (
            pod_with(
                ready(restartCount=1, lastState=ended(AN_HOUR_AGO)),
                ready(restartCount=1, lastState=ended(TEN_SECONDS_AGO)),
            ),
            ("2/2", "Running", "2 (10s ago)"),
        ),
        (pod_with(container({"waiting": {"reason": "ImagePullBackOff"}}), ready()), ("1/2", "ImagePullBackOff", "0")),
        (pod_with(container({"waiting": {}}), ready()), ("1/2", "Running", "0")),
        (pod_with(container(terminated(0, reason="Completed")), phase="Succeeded"), ("0/2", "Completed", "0")),
        (pod_with(container(terminated(1, reason="Error")), ready()), ("1/2", "Error", "0")),
        (pod_with(container(terminated(2))), ("0/2", "ExitCode:2", "0")),
        (pod_with(container(terminated(137, signal=9))), ("0/2", "Signal:9", "0")),
        # Some containers are completed while others run: the pod may be ready or not.
        (
            pod_with(ready(), container(terminated(0, reason="Completed")), conditions=[condition("Ready")]),
            ("1/2", "Running", "0"),
        ),
        (pod_with(ready(), container(terminated(0, reason="Completed"))), ("1/2", "NotReady", "0")),
        (pod_with(container(terminated(0, reason="Completed")), ready()), ("1/2", "NotReady", "0")),
        (
            pod_with(container(terminated(0, reason="Completed")), container(terminated(1, reason="Error"))),
            ("0/2", "Error", "0"),
        ),
        (
            pod_with(conditions=[condition("PodScheduled", "False", reason="SchedulingGated")], phase="Pending"),
            ("0/2", "SchedulingGated", "0"),
        ),
        (pod_with(ready(), meta={"deletionTimestamp": AN_HOUR_AGO}), ("1/2", "Terminating", "0")),
        (
            pod_with(ready(), meta={"deletionTimestamp": AN_HOUR_AGO}, reason="NodeLost"),
            ("1/2", "Unknown", "0"),
        ),
        (
            pod_with(
                container(terminated(0, reason="Completed")),
                phase="Succeeded",
                meta={"deletionTimestamp": AN_HOUR_AGO},
            ),
            ("0/2", "Completed", "0"),
        ),
    ],
)
def test_status_column_of_a_pod_shows_the_most_relevant_container(
    obj: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    assert shown(obj) == expected


PLAIN_INIT = {"initContainers": [{"name": "i0"}, {"name": "i1"}]}
SIDECAR = {"initContainers": [{"name": "i0"}, {"name": "side", "restartPolicy": "Always"}]}
DONE = container(terminated(0), name="i0")
SIDE = container(RUNNING, name="side", started=True, ready=True, restartCount=2, lastState=ended(TEN_SECONDS_AGO))
FAILED_BEFORE = container(terminated(0), name="i0", restartCount=3, lastState=ended(AN_HOUR_AGO))


@pytest.mark.parametrize(
    "spec, statuses, conditions, expected",
    [
        (PLAIN_INIT, [container(RUNNING, name="i0")], [], ("0/2", "Init:0/2", "0")),
        (PLAIN_INIT, [DONE, container(RUNNING, name="i1")], [], ("0/2", "Init:1/2", "0")),
        (PLAIN_INIT, [container(terminated(3), name="i0")], [], ("0/2", "Init:ExitCode:3", "0")),
        (PLAIN_INIT, [container(terminated(3, signal=9), name="i0")], [], ("0/2", "Init:Signal:9", "0")),
        (PLAIN_INIT, [container(terminated(1, reason="Error"), name="i0")], [], ("0/2", "Init:Error", "0")),
        (
            PLAIN_INIT,
            [container({"waiting": {"reason": "CrashLoopBackOff"}}, name="i0", restartCount=3)],
            [],
            ("0/2", "Init:CrashLoopBackOff", "3"),
        ),
        (
            PLAIN_INIT,
            [container({"waiting": {"reason": "PodInitializing"}}, name="i0")],
            [],
            ("0/2", "Init:0/2", "0"),
        ),
        (PLAIN_INIT, [FAILED_BEFORE, container(RUNNING, name="i1")], [], ("0/2", "Init:1/2", "3 (60m ago)")),
        # After initialization only restarts of sidecars count, not those of other init containers.
        (PLAIN_INIT, [FAILED_BEFORE, DONE], [], ("0/2", "Pending", "0")),
        (SIDECAR, [FAILED_BEFORE, SIDE], [], ("1/3", "Pending", "2 (10s ago)")),
        (SIDECAR, [DONE, container(RUNNING, name="side", started=False)], [], ("0/3", "Init:1/2", "0")),
        (SIDECAR, [DONE, container(RUNNING, name="side", started=True)], [], ("0/3", "Pending", "0")),
        # A sidecar that crashes later does not hide the state of the containers.
        (
            SIDECAR,
            [DONE, container(terminated(1, reason="Error"), name="side")],
            [condition("Initialized")],
            ("0/3", "Init:Error", "0"),
        ),
    ],
)
def test_status_column_shows_progress_of_init_containers(
    spec: dict[str, Any], statuses: list[Any], conditions: list[Any], expected: tuple[str, str, str]
) -> None:
    obj = pod_with(phase="Pending", spec=spec, initContainerStatuses=statuses, conditions=conditions)
    assert shown(obj) == expected


def test_wide_columns_show_node_and_addresses() -> None:
    gates = {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    obj = pod_with(
        spec=gates,
        podIPs=[{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        nominatedNodeName="n2",
        conditions=[condition("a"), condition("b", "False")],
    )
    assert pod_cells(obj, NOW)[4:] == ["60m", "10.0.0.1", "n1", "n2", "1/2"]
    assert pod_cells(pod_with(), NOW)[4:] == ["60m", "<none>", "<none>", "<none>", "<none>"]


@pytest.mark.parametrize("phase, reasons", [("Running", []), ("Succeeded", ["Succeeded"]), ("Failed", ["Failed"])])
def test_row_of_a_finished_pod_has_a_condition(phase: str, reasons: list[str]) -> None:
    assert [condition["reason"] for condition in pod_completion(pod_with(phase=phase))] == reasons


def test_pod_with_only_a_name_has_a_row() -> None:
    assert pod_cells({"metadata": {"name": "a"}}, NOW) == ["a", "0/0", "", "0", "<unknown>", *["<none>"] * 4]
