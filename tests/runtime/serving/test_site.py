from __future__ import annotations

import json

import pytest
from structlog.testing import LogCapture

from kcm.runtime.metrics.families import WORKQUEUE_ADDS
from kcm.runtime.serving.site import Site
from tests.runtime.serving.conftest import RequestPage


@pytest.mark.parametrize("path", ["/", "/healthz/", "/healthz/ping", "/livez", "/readyz", "/version", "/debug"])
def test_path_that_upstream_does_not_serve_is_not_found(request_page: RequestPage, path: str) -> None:
    answer = request_page(path)
    assert (answer.status, answer.text) == (404, "404 page not found\n")


@pytest.mark.parametrize("path", ["/debug/pprof/", "/debug/pprof/cmdline", "/debug/flags/v"])
def test_debugging_pages_require_profiling(request_page: RequestPage, path: str) -> None:
    assert request_page(path).status != 404
    assert request_page(path, profiling=False).status == 404


def test_the_configuration_is_json(request_page: RequestPage) -> None:
    answer = request_page("/configz")
    assert json.loads(answer.text) == {"kubecontrollermanager.config.k8s.io": {"Generic": {"Port": 0}}}
    assert answer.headers["Content-Type"].startswith("application/json")


def test_error_in_a_page_is_a_500_and_is_logged(site: Site, request_page: RequestPage, logged: LogCapture) -> None:
    def fail() -> float:
        raise RuntimeError("no number")

    site.metrics.gauge(WORKQUEUE_ADDS.__class__(name="broken", kind="gauge", help="Broken.")).read_from(fail)
    assert request_page("/metrics").status == 500
    (entry,) = [entry for entry in logged.entries if entry["log_level"] == "error"]
    assert (entry["event"], entry["path"]) == ("page failed", "/metrics")


def test_the_verbosity_is_set_by_put(request_page: RequestPage, verbosities: list[int]) -> None:
    answer = request_page("/debug/flags/v", method="PUT", data="4\n")
    assert (answer.status, verbosities) == (200, [4])
    assert request_page("/debug/flags/v").status == 406
    assert request_page("/debug/flags/v", method="PUT", data="loud").status == 400
    assert verbosities == [4]
