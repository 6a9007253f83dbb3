from __future__ import annotations

from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from actors.app.connection import connect
from runtime.client.config import ClientConfig
from runtime.client.credentials import ANONYMOUS, FixedCredential
from runtime.metrics.registry import Metrics
from runtime.scheduling.clock import SystemClock


@pytest.mark.parametrize(
    "server, verify, told",
    [
        ("https://127.0.0.1:6443", False, 1),
        ("https://127.0.0.1:6443", True, 0),
        ("http://127.0.0.1:8080", False, 0),  # there is no certificate
    ],
)
def test_a_server_that_is_not_verified_is_told_once(server: str, verify: bool, told: int) -> None:
    logged = LogCapture()
    log: Any = structlog.wrap_logger(None, processors=[logged])
    config = ClientConfig(
        server=server, origin="admin.conf context c", credentials=FixedCredential(ANONYMOUS), verify=verify
    )
    clock = SystemClock()
    connect(config, clock=clock, metrics=Metrics(), log=log).close(timeout=2.0)
    clock.close()
    warnings = [entry for entry in logged.entries if entry["log_level"] == "warning"]
    assert len(warnings) == told
    for warning in warnings:
        assert (warning["server"], warning["config"]) == (server, "admin.conf context c")
