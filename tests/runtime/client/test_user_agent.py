from __future__ import annotations

import pytest

from kcm.runtime.apiserver.core.field_managers import agent_prefix
from kcm.runtime.client.user_agent import UserAgents, program_or_error

AGENTS = UserAgents(
    program="kube-controller-manager",
    version="v1.36.2+kcm.0.1.0",
    platform="linux/amd64",
    commit="kcm-0.1.0",
    programs={"hollow-kubelet": ("kubelet", ""), "hollow-scheduler": ("kube-scheduler", "scheduler")},
)
REST = "/v1.36.2+kcm.0.1.0 (linux/amd64) kubernetes/kcm-0.1.0"


@pytest.mark.parametrize(
    ("client", "header"),
    [
        ("replicaset-controller", f"kube-controller-manager{REST}/replicaset-controller"),
        ("", f"kube-controller-manager{REST}"),
        ("evil\r\nX: y", f"kube-controller-manager{REST}/evil??X: y"),
        ("naïve", f"kube-controller-manager{REST}/na?ve"),
        ("hollow-kubelet", f"kubelet{REST}"),
        ("hollow-scheduler", f"kube-scheduler{REST}/scheduler"),
    ],
)
def test_header_is_client_gos_with_the_clients_name_as_suffix(client: str, header: str) -> None:
    assert AGENTS.header(client) == header


@pytest.mark.parametrize("client", ["replicaset-controller", "system:serviceaccount:kube-system:replicaset-controller"])
def test_field_manager_of_every_client_is_the_program(client: str) -> None:
    assert agent_prefix(AGENTS.header(client)) == "kube-controller-manager"


@pytest.mark.parametrize("name", ["my-operator", "website_controller.v2", "x" * 128])
def test_program_name_is_accepted_if_it_can_be_a_field_manager(name: str) -> None:
    assert program_or_error(name) == name


@pytest.mark.parametrize("name", ["", "my operator", "a/b", "naïve", "a\n", "x" * 129])
def test_invalid_program_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="program is at most 128"):
        program_or_error(name)
