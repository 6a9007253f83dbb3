from __future__ import annotations

import pytest

from runtime.client.user_agent import base_user_agent, user_agent


@pytest.mark.parametrize(
    ("system", "machine", "base"),
    [
        ("Linux", "x86_64", "kcm/0.1.0 (linux/amd64)"),
        ("Linux", "aarch64", "kcm/0.1.0 (linux/arm64)"),
        ("Darwin", "arm64", "kcm/0.1.0 (darwin/arm64)"),
        ("Linux", "s390x", "kcm/0.1.0 (linux/s390x)"),
    ],
)
def test_system_and_machine_have_the_names_that_go_gives_them(system: str, machine: str, base: str) -> None:
    assert base_user_agent("0.1.0", system=system, machine=machine) == base


@pytest.mark.parametrize(
    ("client", "header"),
    [
        ("replicaset-controller", "kcm/1 (linux/amd64) replicaset-controller"),
        ("", "kcm/1 (linux/amd64)"),
        ("evil\r\nX: y", "kcm/1 (linux/amd64) evil??X: y"),
        ("naïve", "kcm/1 (linux/amd64) na?ve"),
    ],
)
def test_a_client_adds_its_name_and_nothing_else(client: str, header: str) -> None:
    assert user_agent("kcm/1 (linux/amd64)", client) == header
