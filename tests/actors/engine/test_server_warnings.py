"""Each warning of the API server is logged once."""

from __future__ import annotations

from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.server_warnings import MOST_REMEMBERED, ServerWarnings
from kcm.protocols.resources import PODS, REPLICASETS


def test_each_warning_is_logged_once_for_each_client_and_resource(log: FilteringBoundLogger, logs: LogCapture) -> None:
    warnings = ServerWarnings(log)
    for client, resource in (("a", PODS), ("a", PODS), ("b", PODS), ("a", REPLICASETS)):
        warnings.log(['unknown field "spec.x"', "deprecated"], client=client, resource=resource.id, request="patch it")
    assert [(entry["client"], entry["warning"]) for entry in logs.entries] == [
        ("a", 'unknown field "spec.x"'),
        ("a", "deprecated"),
        ("b", 'unknown field "spec.x"'),
        ("b", "deprecated"),
        ("a", 'unknown field "spec.x"'),
        ("a", "deprecated"),
    ]
    assert logs.entries[0] == {
        "event": "API server warning",
        "log_level": "warning",
        "client": "a",
        "request": "patch it",
        "warning": 'unknown field "spec.x"',
    }


def test_warning_about_a_read_is_logged_as_info(log: FilteringBoundLogger, logs: LogCapture) -> None:
    ServerWarnings(log).log(["deprecated"], client="a", resource=PODS.id, request="list or watch pods", is_write=False)
    assert [entry["log_level"] for entry in logs.entries] == ["info"]


def test_memory_of_warnings_is_bounded(log: FilteringBoundLogger, logs: LogCapture) -> None:
    warnings = ServerWarnings(log)
    for number in (*range(MOST_REMEMBERED + 1), 1, 0):
        warnings.log([str(number)], client="a", resource=PODS.id, request="patch it")
    assert [entry["warning"] for entry in logs.entries[MOST_REMEMBERED:]] == [str(MOST_REMEMBERED), "0"]
