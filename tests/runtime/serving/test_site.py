from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import LogCapture

from runtime.metrics.families import WORKQUEUE_ADDS, WORKQUEUE_QUEUE_DURATION
from runtime.serving import profiling
from runtime.serving.authorization import PathsAllowed
from runtime.serving.site import Site
from runtime.serving.status_pages import wanted_version

Ask = Callable[..., Any]


@pytest.mark.parametrize("path", ["/", "/healthz/", "/healthz/ping", "/livez", "/readyz", "/version", "/debug"])
def test_what_upstream_does_not_serve_is_not_found(ask: Ask, path: str) -> None:
    answer = ask(path)
    assert (answer.status, answer.text) == (404, "404 page not found\n")


@pytest.mark.parametrize("path", ["/debug/pprof/", "/debug/pprof/cmdline", "/debug/flags/v"])
def test_debugging_pages_are_there_only_with_profiling(ask: Ask, path: str) -> None:
    assert ask(path).status != 404
    assert ask(path, profiling=False).status == 404


@pytest.mark.parametrize(
    "path, status",
    [
        ("/healthz", 200),
        ("/readyz", 404),
        ("/metrics", 403),
        ("/", 403),
        ("/nowhere", 403),
        ("/healthz/ping", 403),
    ],
)
def test_paths_that_are_not_for_everybody_are_forbidden(ask: Ask, path: str, status: int) -> None:
    assert ask(path, authorizer=PathsAllowed(("/healthz", "/readyz", "/livez"))).status == status


def test_a_refusal_is_a_status_object(ask: Ask, logged: LogCapture) -> None:
    answer = ask("/metrics", authorizer=PathsAllowed(()), method="DELETE")
    assert json.loads(answer.text) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'forbidden: User "system:anonymous" cannot delete path "/metrics"',
        "reason": "Forbidden",
        "details": {},
        "code": 403,
    }
    assert answer.headers["Content-Type"].startswith("application/json")
    assert answer.headers["Cache-Control"] == "no-cache, private"


@pytest.mark.parametrize(
    "allowed, path, status",
    [
        ("healthz", "/healthz", 200),
        ("/metrics*", "/metrics/slis", 200),
        ("/metrics*", "/configz", 403),
        ("*", "/configz", 200),
    ],
)
def test_allowed_paths_may_lack_a_slash_and_end_in_a_star(ask: Ask, allowed: str, path: str, status: int) -> None:
    assert ask(path, authorizer=PathsAllowed((allowed,))).status == status


def test_metrics_are_prometheus_text(site: Site, ask: Ask) -> None:
    site.metrics.counter(WORKQUEUE_ADDS, "replicaset").inc(3)
    waited = site.metrics.histogram(WORKQUEUE_QUEUE_DURATION, "replicaset")
    for seconds in (5e-9, 0.05, 20.0):
        waited.observe(seconds)
    answer = ask("/metrics")
    lines = answer.text.splitlines()
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert "# TYPE workqueue_adds_total counter" in lines
    assert 'workqueue_adds_total{name="replicaset"} 3.0' in lines
    buckets = [line for line in lines if line.startswith("workqueue_queue_duration_seconds_bucket")]
    assert buckets[0] == 'workqueue_queue_duration_seconds_bucket{le="1e-08",name="replicaset"} 1.0'
    assert 'workqueue_queue_duration_seconds_bucket{le="0.1",name="replicaset"} 2.0' in buckets
    assert buckets[-1] == 'workqueue_queue_duration_seconds_bucket{le="+Inf",name="replicaset"} 3.0'
    assert 'workqueue_queue_duration_seconds_count{name="replicaset"} 3.0' in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)


def test_metrics_are_open_metrics_for_those_who_ask(site: Site, ask: Ask) -> None:
    site.metrics.counter(WORKQUEUE_ADDS, "replicaset").inc()
    answer = ask("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_the_configuration_is_json(ask: Ask) -> None:
    answer = ask("/configz")
    assert json.loads(answer.text) == {"kubecontrollermanager.config.k8s.io": {"Generic": {"Port": 0}}}
    assert answer.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize(
    "path, lines",
    [
        ("/flagz", ["kube-controller-manager flagz", "profiling: true", "v: 2"]),
        (
            "/statusz",
            [
                "kube-controller-manager statusz",
                "Started: Fri Nov 21 12:00:00 UTC 2025",
                "Up: 0:02:00",
                "Binary version: v1.36.2+kcm.0.1.0",
                "Emulation version: 1.36",
                "Paths: /configz /flagz /healthz /metrics",
            ],
        ),
    ],
)
def test_the_process_describes_itself_to_people(ask: Ask, path: str, lines: list[str]) -> None:
    answer = ask(path)
    shown = answer.text.splitlines()
    assert shown[1].startswith("Warning: This endpoint is not meant to be machine parseable")
    assert [shown[0], *shown[3:]] == lines


@pytest.mark.parametrize(
    "path, kind, facts",
    [
        ("/flagz", "Flagz", {"flags": {"profiling": "true", "v": "2"}}),
        (
            "/statusz",
            "Statusz",
            {
                "startTime": "2025-11-21T12:00:00Z",
                "uptimeSeconds": 120,
                "binaryVersion": "v1.36.2+kcm.0.1.0",
                "emulationVersion": "1.36",
                "paths": ["/configz", "/flagz", "/healthz", "/metrics"],
            },
        ),
    ],
)
def test_the_process_describes_itself_to_programs(ask: Ask, path: str, kind: str, facts: dict[str, Any]) -> None:
    accept = f"application/json;as={kind};v=v1beta1;g=config.k8s.io"
    assert json.loads(ask(path, headers={"Accept": accept}).text) == {
        "kind": kind,
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-controller-manager"},
        **facts,
    }
    assert ask(path, headers={"Accept": "application/json"}).status == 406


@pytest.mark.parametrize(
    "accept, version",
    [
        ("", ""),
        ("*/*", ""),
        ("text/plain", ""),
        ("image/png, text/plain;q=0.5", ""),
        ("application/json;as=Flagz;v=v1alpha1;g=config.k8s.io", "v1alpha1"),
        ("application/json; as=Flagz; v=v1beta1; g=config.k8s.io", "v1beta1"),
        ("application/json;as=Flagz;v=v7;g=config.k8s.io", None),
        ("application/json;as=Statusz;v=v1beta1;g=config.k8s.io", None),
        ("application/yaml", None),
    ],
)
def test_what_an_accept_header_asks_for(accept: str, version: str | None) -> None:
    assert wanted_version(accept, "Flagz") == version


def test_a_page_that_fails_is_a_500_and_a_logged_error(site: Site, ask: Ask, logged: LogCapture) -> None:
    def fail() -> float:
        raise RuntimeError("no number")

    site.metrics.gauge(WORKQUEUE_ADDS.__class__(name="broken", kind="gauge", help="Broken.")).read_from(fail)
    assert ask("/metrics").status == 500
    (entry,) = [entry for entry in logged.entries if entry["log_level"] == "error"]
    assert (entry["event"], entry["path"]) == ("page failed", "/metrics")


def test_the_verbosity_is_set_by_put(ask: Ask, verbosities: list[int]) -> None:
    answer = ask("/debug/flags/v", method="PUT", data="4\n")
    assert (answer.status, verbosities) == (200, [4])
    assert ask("/debug/flags/v").status == 406
    assert ask("/debug/flags/v", method="PUT", data="loud").status == 400
    assert verbosities == [4]


def test_threads_are_shown_with_their_names_and_stacks(ask: Ask) -> None:
    for path in ("/debug/pprof/goroutine?debug=2", "/debug/pprof/threads"):
        text = ask(path).text
        assert f"[{threading.current_thread().name}]:" in text
        assert "thread_stacks" in text


def test_samples_are_collapsed_stacks() -> None:
    counts: Counter[str] = Counter()
    for _ in range(2):
        profiling.sample(counts, leave_out=None)
    mine = [line for line in profiling.collapsed(counts).splitlines() if "test_samples_are_collapsed_stacks" in line]
    stack, _, count = mine[0].rpartition(" ")
    assert stack.startswith(f"{threading.current_thread().name};")
    assert stack.endswith("profiling.sample")
    assert int(count) == 2
    profiling.sample(counts, leave_out=threading.get_ident())
    assert sum(count for stack, count in counts.items() if "test_samples" in stack) == 2


def test_a_profile_takes_the_time_that_was_asked_for(ask: Ask) -> None:
    assert ask("/debug/pprof/profile?seconds=0").text == ""
    assert ask("/debug/pprof/profile?seconds=soon").status == 400
