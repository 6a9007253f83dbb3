from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import LogCapture

from kcm.runtime.metrics.families import HEALTHCHECK, HEALTHCHECKS
from kcm.runtime.serving.health import HealthChecks, HealthFailure, HealthNotice
from kcm.runtime.serving.site import Site


def fine() -> None:
    return None


def broken() -> str:
    return "the table of pods is not synced"


def raising() -> str:
    raise KeyError("pods")


def bad_and_good(log: Any) -> HealthChecks:
    checks = HealthChecks(log=log)
    checks.set({"leaderElection": fine, "replicaset-controller": broken, "job-controller": fine})
    return checks


@pytest.mark.parametrize(
    "exclude, good, page",
    [
        (
            (),
            False,
            (
                "[+]leaderElection ok\n[-]replicaset-controller failed: reason withheld\n[+]job-controller ok\n"
                "healthz check failed\n"
            ),
        ),
        (
            ("replicaset-controller",),
            True,
            "[+]leaderElection ok\n[+]replicaset-controller excluded: ok\n[+]job-controller ok\nhealthz check passed\n",
        ),
        (
            ("replicaset-controller", "b", "a"),
            True,
            (
                "[+]leaderElection ok\n[+]replicaset-controller excluded: ok\n[+]job-controller ok\n"
                'warn: some health checks cannot be excluded: no matches for "a","b"\nhealthz check passed\n'
            ),
        ),
    ],
)
def test_page_has_one_line_per_check(log: Any, exclude: tuple[str, ...], good: bool, page: str) -> None:
    health = bad_and_good(log).examine(exclude=exclude)
    assert (health.good, health.page) == (good, page)


def test_process_without_checks_is_healthy(log: Any) -> None:
    assert HealthChecks(log=log).examine().page == "healthz check passed\n"


def test_check_that_raises_fails_without_affecting_others(log: Any, logged: LogCapture) -> None:
    checks = HealthChecks(log=log)
    checks.set({"a": raising, "b": fine})
    health = checks.examine()
    assert health.troubles == {"a": "the check itself failed: KeyError('pods')"}
    assert "[+]b ok" in health.page
    assert logged.entries[0]["event"] == "health check raised"


def test_reason_of_a_failed_check_is_logged_once_until_it_passes(log: Any, logged: LogCapture) -> None:
    ages = iter(["silent for 3 s", "silent for 4 s", None, "silent for 5 s"])
    checks = HealthChecks(log=log)
    checks.set({"a": lambda: next(ages)})
    for _ in range(4):
        checks.examine()
    assert [(entry["log_level"], entry["event"]) for entry in logged.entries] == [
        ("warning", "health check fails"),
        ("info", "health check passes again"),
        ("warning", "health check fails"),
    ]
    assert logged.entries[0]["reason"] == "silent for 3 s"
    assert logged.entries[1]["reason_before"] == "silent for 4 s"


def test_excluded_check_is_not_logged(log: Any, logged: LogCapture) -> None:
    checks = bad_and_good(log)
    checks.examine()
    checks.examine(exclude=["replicaset-controller"])
    checks.examine()
    assert len(logged.entries) == 1


def test_results_are_counted_for_the_slis_page(log: Any) -> None:
    checks = bad_and_good(log)
    checks.examine()
    checks.examine()
    slis = checks.slis
    assert slis.gauge(HEALTHCHECK, "leaderElection", "healthz").value == 1
    assert slis.gauge(HEALTHCHECK, "replicaset-controller", "healthz").value == 0
    assert slis.counter(HEALTHCHECKS, "replicaset-controller", "healthz", "error").value == 2


@pytest.mark.parametrize(
    "path, status, text",
    [
        ("/healthz", 200, "ok"),
        ("/healthz?verbose", 200, "[+]good ok\nhealthz check passed\n"),
        ("/healthz?verbose=true&exclude=good", 200, "[+]good excluded: ok\nhealthz check passed\n"),
    ],
)
def test_healthy_process_returns_ok(
    site: Site, request_page: Callable[..., Any], path: str, status: int, text: str
) -> None:
    site.health.set({"good": fine})
    answer = request_page(path)
    assert (answer.status, answer.text) == (status, text)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/healthz", "/healthz?verbose"])
def test_failing_check_is_named_without_its_reason(site: Site, request_page: Callable[..., Any], path: str) -> None:
    site.health.set({"bad": broken, "good": fine})
    answer = request_page(path)
    assert answer.status == 500
    assert answer.text == "[-]bad failed: reason withheld\n[+]good ok\nhealthz check failed\n"


@pytest.mark.parametrize("path", ["/healthz", "/healthz?verbose"])
def test_notice_is_shown_on_a_healthy_page_with_its_public_part(
    site: Site, request_page: Callable[..., Any], path: str
) -> None:
    notice = HealthNotice("cannot get leases: jane may not", shown="cannot get leases")
    site.health.set({"leaderElection": lambda: notice, "good": fine})
    answer = request_page(path)
    assert answer.status == 200
    assert answer.text == "[-]leaderElection failed: cannot get leases\n[+]good ok\nhealthz check passed\n"


def test_the_service_level_page_can_be_reset(site: Site, request_page: Callable[..., Any]) -> None:
    site.health.set({"good": fine})
    request_page("/healthz")
    line = 'kubernetes_healthcheck{name="good",type="healthz"} 1.0'
    assert line in request_page("/metrics/slis").text
    assert "kubernetes_healthcheck" not in request_page("/metrics").text
    assert request_page("/metrics/slis", method="DELETE").text == "metrics reset\n"
    assert line not in request_page("/metrics/slis").text


def test_a_notice_is_shown_and_logged_and_leaves_the_page_healthy(log: Any, logged: LogCapture) -> None:
    """A liveness probe must not restart the process for a problem that a restart does not fix."""
    checks = HealthChecks(log=log)
    checks.set({"unreadable-objects": lambda: HealthNotice("pods default/a: no time"), "job-controller": fine})
    health = checks.examine()
    assert health.good
    assert health.page.splitlines() == [
        "[-]unreadable-objects failed: reason withheld",
        "[+]job-controller ok",
        "healthz check passed",
    ]
    assert [(entry["check"], entry["reason"]) for entry in logged.entries] == [
        ("unreadable-objects", "pods default/a: no time")
    ]


def test_failure_is_logged_again_when_its_public_text_changes(log: Any, logged: LogCapture) -> None:
    checks = HealthChecks(log=log)
    for why, shown in (("stuck: for 30 s", "stuck"), ("stuck: for 40 s", "stuck"), ("deaf: for 240 s", "deaf")):
        checks.set({"job-controller": lambda why=why, shown=shown: HealthFailure(why, shown=shown)})
        health = checks.examine()
        assert not health.good
        assert health.page.splitlines()[0] == f"[-]job-controller failed: {shown}"
    assert [entry["reason"] for entry in logged.entries] == ["stuck: for 30 s", "deaf: for 240 s"]


def test_check_that_does_not_exist_is_neither_shown_nor_counted(log: Any, logged: LogCapture) -> None:
    checks, existing = HealthChecks(log=log), {"job-controller"}
    checks.set({"job-controller": broken, "leaderElection": fine}, exists=existing.__contains__)
    assert checks.examine(exclude=["leaderElection"]).page.splitlines() == [
        "[-]job-controller failed: reason withheld",
        'warn: some health checks cannot be excluded: no matches for "leaderElection"',
        "healthz check failed",
    ]
    existing.clear()
    assert checks.examine().page == "healthz check passed\n"
    shown = {(family.name, labels) for family, series in checks.slis.collect() for labels, _ in series}
    assert shown == {(HEALTHCHECKS.name, ("job-controller", "healthz", "error"))}
    existing.add("job-controller")
    checks.examine()
    assert [entry["event"] for entry in logged.entries] == ["health check fails", "health check fails"]
