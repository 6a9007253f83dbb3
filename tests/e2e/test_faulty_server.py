"""A manager whose API server has a bad day: it gets where it should, makes no pod twice, and does not storm."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.conftest import in_namespace
from tests.e2e.faulty_proxy import FAULTS, Weather, faulty_proxy
from tests.e2e.kubectl import Kubectl, pod_history
from tests.e2e.programs import Manager, hollow_nodes, managing, stays, until
from tests.e2e.scenarios import until_rolled_out, until_status, workload

REPLICAS = 4
HUGE = "x" * 300_000  # a server stores annotations of 256 kB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded API server with hollow nodes and no manager."""
    directory = tmp_path_factory.mktemp("faulty")
    own = launch(ServerSettings(directory=directory / "kcm"))
    try:
        with hollow_nodes(own.kubeconfig, directory / "hollow.log"):
            yield own.kubeconfig
    finally:
        own.stop()


@dataclass(frozen=True)
class Storm:
    manager: Manager
    weather: Weather
    kubectl: Kubectl


@contextmanager
def storm(server: Path, directory: Path, name: str, weather: Weather) -> Iterator[Storm]:
    """A manager behind a proxy with this weather, and a namespace to work in."""
    with faulty_proxy(server, weather) as proxied:
        with managing(directory / "kcm.log", f"--kubeconfig={proxied.kubeconfig}", "--leader-elect=false") as manager:
            yield Storm(manager, weather, in_namespace(server, name))
            print(f"faults: {weather.hit}\nrequests: {weather.requests}")


@pytest.mark.parametrize("fault", [*(pytest.param(fault, marks=pytest.mark.slow) for fault in FAULTS), "all"])
def test_a_rollout_ends_right_whatever_a_third_of_the_requests_meet(server: Path, tmp_path: Path, fault: str) -> None:
    faults = FAULTS if fault == "all" else (fault,)
    with (
        storm(server, tmp_path, f"trouble-{fault}", Weather(faults=faults)) as met,
        pod_history(met.kubectl) as history,
    ):
        met.weather.trouble = 0.33
        for image in ("web:1", "web:2"):
            met.kubectl.apply(workload("Deployment", "web", REPLICAS, image))
            until_rolled_out(met.kubectl, "web", REPLICAS, image)
        assert met.weather.hit.total() > 5
        assert history.images() == ["web:1"] * REPLICAS + ["web:2"] * REPLICAS


@pytest.mark.slow
def test_watches_that_are_cut_in_the_middle_of_a_line_are_taken_up_where_they_were(
    server: Path, tmp_path: Path
) -> None:
    with storm(server, tmp_path, "cut", Weather()) as met, pod_history(met.kubectl) as history:
        for image in ("web:1", "web:2"):
            met.weather.cuts = 2
            met.kubectl.apply(workload("Deployment", "web", REPLICAS, image))
            until_rolled_out(met.kubectl, "web", REPLICAS, image)
            assert met.weather.cuts == 0
        assert history.images() == ["web:1"] * REPLICAS + ["web:2"] * REPLICAS


def test_watches_cut_by_an_idle_timeout_do_not_count_as_failures(server: Path, tmp_path: Path) -> None:
    """They were: each break doubled the wait for the next watch, and tables were a minute old at last."""
    with storm(server, tmp_path, "idle", Weather(idle=1.5)) as met:
        until(lambda: met.weather.hit["idle"] > 200, "watches are cut again and again", why=met.manager.program.text)
        met.kubectl.apply(workload("Deployment", "web", REPLICAS, "web:1"))
        until_rolled_out(met.kubectl, "web", REPLICAS, "web:1")
        log = met.manager.program.text()
    assert "watch broke, opening it again" in log
    assert "watch failed, retrying" not in log
    assert "API server does not respond" not in log


@pytest.mark.parametrize("delay", [1.0, pytest.param(10.0, marks=pytest.mark.slow)])
def test_no_pod_is_made_too_many_while_the_watches_lag_behind(server: Path, tmp_path: Path, delay: float) -> None:
    with storm(server, tmp_path, f"late-{delay:.0f}", Weather()) as met:
        met.weather.watch_delay = delay
        kubectl = met.kubectl
        kubectl.apply(workload("ReplicaSet", "web", 4))
        kubectl.until_pods(4)
        kubectl("scale", "rs/web", "--replicas=7")
        kubectl.until_pods(7)
        kubectl("scale", "rs/web", "--replicas=5")
        kubectl.until_pods(5)
        until_status(kubectl, "apps/v1/replicasets", "web", replicas=5, readyReplicas=5)
        assert met.weather.created.count(kubectl.path("pods")) == 7


@pytest.mark.slow
def test_pods_rejected_at_once_are_replaced_with_growing_delay(server: Path, tmp_path: Path) -> None:
    rejected = {"metadata": {"labels": {"app": "web"}, "annotations": {"hollow.kcm.dev/reject": "true"}}}
    with storm(server, tmp_path, "rejected", Weather()) as met:
        template = {**workload("ReplicaSet", "web", 1)["spec"]["template"], **rejected}
        met.kubectl.apply(workload("ReplicaSet", "web", 1, template=template))
        path = met.kubectl.path("pods")
        until(lambda: met.weather.created.count(path) >= 4, "it tries again", why=met.kubectl.state)
        stays(lambda: met.weather.created.count(path) <= 12, "few pods", seconds=6.0)
        met.kubectl("delete", "rs", "web")
        assert met.manager.healthy()


def test_malformed_objects_are_warned_of_and_hurt_no_other(server: Path, tmp_path: Path) -> None:
    """They come in every watch, before each line that is good. What has a name holds back its own namespace alone."""
    nonsense: list[object] = [
        {"metadata": 5, "spec": "none"},
        {"spec": {}},
        {"metadata": {"name": "strange", "namespace": "elsewhere", "labels": 7, "uid": "u"}},
        "strange",
    ]
    bad = [json.dumps({"type": "ADDED", "object": thing}).encode() + b"\n" for thing in nonsense]
    with storm(server, tmp_path, "nonsense", Weather(mutate=lambda _path, line: [*bad, b"{{{\n", line])) as met:
        met.kubectl.apply(workload("Deployment", "web", 2))
        until_rolled_out(met.kubectl, "web", 2, "web:1")
        lines = met.manager.program.text().splitlines()
        assert any("malformed object skipped" in line for line in lines), "of what has no name nothing is known"
        strange = [line for line in lines if "object cannot be read" in line]
        assert any('key="elsewhere/strange"' in line for line in strange), "it is named"
        assert "Traceback" not in met.manager.program.text()
        assert met.manager.healthy()


def test_unknown_fields_and_huge_annotations_are_tolerated(server: Path, tmp_path: Path) -> None:
    def enrich(_path: str, line: bytes) -> list[bytes]:
        event = json.loads(line)
        event["object"].setdefault("metadata", {}).setdefault("annotations", {})["big"] = HUGE
        event["object"]["unheardOf"] = {"deep": [1, None, {"er": True}]}
        return [json.dumps(event).encode() + b"\n"]

    with storm(server, tmp_path, "rich", Weather(mutate=enrich)) as met:
        met.kubectl.apply(workload("ReplicaSet", "web", 2))
        met.kubectl.until_pods(2)
        until_status(met.kubectl, "apps/v1/replicasets", "web", replicas=2, readyReplicas=2)
        assert met.manager.healthy()
