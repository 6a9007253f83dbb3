"""A Lease that may not be read or created: what the real kube-controller-manager and ours log, and what ours shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.e2e.kubectl import Api, Object
from tests.e2e.programs import Manager, Program, ending, free_port, run_kcm, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
NAME = "lease-user"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
FLAGS = ("--leader-elect=true", "--controllers=deployment-controller")
# klog ends a line with err="…" and quotes as Go does; ours has the key error.
LINE = re.compile(r'"((?:Error|Failed) [^"]*lease[^"]*)".*? err(?:or)?="((?:[^"\\]|\\.)*)"')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    directory = tmp_path_factory.mktemp("lease")
    with real_server(directory, assets_or_skip()) as real:
        yield real


def powerless_kubeconfig(server: RealServer) -> Path:
    """Return a kubeconfig of a service account that has no rights but those of every user."""
    api = Api(server.kubeconfig)
    accounts = "/api/v1/namespaces/kube-system/serviceaccounts"
    api.request("POST", accounts, {"metadata": {"name": NAME}})
    token = api.request("POST", f"{accounts}/{NAME}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    config = yaml.safe_load(server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = server.directory / "powerless.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


def allow(server: RealServer, *verbs: str) -> None:
    """Allow the account these verbs of Leases, and no others."""
    api = Api(server.kubeconfig)
    role: Object = {
        "metadata": {"name": NAME},
        "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(verbs)}],
    }
    subjects = [{"kind": "ServiceAccount", "name": NAME, "namespace": "kube-system"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME}
    if NAME not in {role["metadata"]["name"] for role in api.get(f"{ROLES}/roles")["items"]}:
        api.request("POST", f"{ROLES}/roles", role)
        binding = {"metadata": {"name": NAME}, "roleRef": reference, "subjects": subjects}
        api.request("POST", f"{ROLES}/rolebindings", binding)
    else:
        api.request("PUT", f"{ROLES}/roles/{NAME}", role)


def failures(program: Program) -> list[tuple[str, str]]:
    """Return text and error of each line about a try that failed."""
    return [(found[1], found[2]) for found in LINE.finditer(program.text())]


def until_failed(program: Program, text: str) -> str:
    """Wait until a try has failed so twice; return why."""

    def tried() -> str | None:
        errors = [error for event, error in failures(program) if event == text]
        return errors[-1] if len(errors) > 1 else None

    return until(tried, f"twice {text!r}", why=program.text)


@contextmanager
def real_one(server: RealServer, kubeconfig: Path) -> Iterator[Program]:
    command = [
        str(server.binaries / "kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        f"--flex-volume-plugin-dir={server.directory / 'flex'}",
        *FLAGS,
    ]
    with ending(spawn(command, server.directory / "real.log")) as program:
        yield program


@contextmanager
def our_one(server: RealServer, kubeconfig: Path) -> Iterator[Manager]:
    manager = run_kcm(server.directory / "ours.log", f"--kubeconfig={kubeconfig}", *FLAGS)
    with ending(manager.program):
        yield manager


def test_failed_tries_are_logged_like_upstream_and_shown_on_a_healthy_page(server: RealServer) -> None:
    kubeconfig = powerless_kubeconfig(server)
    with real_one(server, kubeconfig) as theirs, our_one(server, kubeconfig) as ours:
        reading = "Error retrieving lease lock"
        assert until_failed(ours.program, reading) == until_failed(theirs, reading)

        def shown() -> str | None:
            status, page = ours.get("/healthz")
            return page if status == 200 and "leaderElection failed" in page else None

        page = until(shown, "the health check reports it", why=ours.program.text)
        lease = "leases.coordination.k8s.io kube-system/kube-controller-manager"
        assert f"[-]leaderElection failed: cannot get {lease}\n" in page
        assert ours.program.running, "no restart changes what may be read"
        allow(server, "get")
        creating = "Error initially creating lease lock"
        assert until_failed(ours.program, creating) == until_failed(theirs, creating)
        until(lambda: f"cannot create {lease}" in ours.get("/healthz")[1], "the page names the other verb")
    with our_one(server, kubeconfig) as ours:
        until_failed(ours.program, creating)
        allow(server, "get", "create", "update")
        until(
            lambda: "Successfully acquired lease" in ours.program.text(),
            "it leads without a restart",
            why=ours.program.text,
        )
        until(lambda: "[-]leaderElection" not in ours.get("/healthz?verbose")[1], "the check passes again")
