from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from kcm.actors.app.connection import api_transport, connect, user_agents
from kcm.runtime.client.config import ClientConfig
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock


@pytest.mark.parametrize(
    "server, verify, count",
    [
        ("https://127.0.0.1:6443", False, 1),
        ("https://127.0.0.1:6443", True, 0),
        ("http://127.0.0.1:8080", False, 0),  # there is no certificate
    ],
)
def test_unverified_server_is_logged_once(server: str, verify: bool, count: int) -> None:
    logged = LogCapture()
    log: Any = structlog.wrap_logger(None, processors=[logged])
    config = ClientConfig(
        server=server, origin="admin.conf context c", credentials=FixedCredential(ANONYMOUS), verify=verify
    )
    clock = SystemClock()
    connect(config, clock=clock, metrics=Metrics(), log=log).close(timeout=2.0)
    clock.close()
    warnings = [entry for entry in logged.entries if entry["log_level"] == "warning"]
    assert len(warnings) == count
    for warning in warnings:
        assert (warning["server"], warning["config"]) == (server, "admin.conf context c")


def test_own_client_of_a_named_program_keeps_the_user_agent_kcm() -> None:
    # Writes of --apply are not those of a controller.
    agents = user_agents("kube-controller-manager", {OWN_CLIENT: ("kcm", "")})
    assert agents.header(OWN_CLIENT).partition("/")[0] == "kcm"
    assert agents.header("job-controller").partition("/")[0] == "kube-controller-manager"


def test_program_that_cannot_be_a_field_manager_is_refused(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
    )
    with pytest.raises(ValueError, match="got 'my operator'"), api_transport(kubeconfig, program="my operator"):
        pass
