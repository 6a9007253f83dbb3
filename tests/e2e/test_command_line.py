"""Errors of the command (one line, exit code 1, no traceback) and the pages that it serves."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.conftest import Site
from tests.e2e.forks import Forks
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import ending, run_kcm, until
from tests.e2e.scenarios import until_status, workload


@dataclass(frozen=True)
class Surroundings:
    """Files and ports that arguments name. taken: a port in use."""

    directory: Path
    own_cluster: Site
    taken: int

    def kubeconfig(self, name: str, *, server: str = "", token: str = "", text: str | None = None) -> str:
        """A copy of the cluster's own, changed."""
        path = self.directory / name
        config = yaml.safe_load(self.own_cluster.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = server or config["clusters"][0]["cluster"]["server"]
        config["users"][0]["user"]["token"] = token or config["users"][0]["user"]["token"]
        path.write_text(yaml.safe_dump(config) if text is None else text)
        return f"--kubeconfig={path}"

    def file(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    @property
    def embedded_directory(self) -> Path:
        return self.own_cluster.kubeconfig.parent


@pytest.fixture
def surroundings(tmp_path: Path, own_cluster: Site) -> Iterator[Surroundings]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield Surroundings(tmp_path, own_cluster, listening.getsockname()[1])


SERVING = "--secure-port=0"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
REFUSED: dict[str, tuple[Callable[[Surroundings], list[str]], str]] = {
    "an unknown flag": (lambda _: ["--nope"], "Error: unknown flag: --nope"),
    "a flag whose value is not a number": (
        lambda _: ["--concurrent-rc-syncs=many"],
        'Error: invalid argument "many" for "--concurrent-rc-syncs" flag',
    ),
    "an argument": (lambda _: ["extra"], 'Error: "kcm" does not take any arguments, got ["extra"]'),
    "an invalid port": (lambda _: ["--secure-port=70000"], "--secure-port 70000 must be between 1 and 65535"),
    "lease timings that cannot work": (
        lambda _: ["--leader-elect-lease-duration=1s"],
        "leaseDuration must be greater than renewDeadline",
    ),
    "no kubeconfig": (
        lambda around: [f"--kubeconfig={around.directory / 'none'}", SERVING],
        "none: no such file or directory",
    ),
    "a kubeconfig that is a directory": (
        lambda around: [f"--kubeconfig={around.directory}", SERVING],
        "is a directory",
    ),
    "a kubeconfig that is not YAML": (
        lambda around: [around.kubeconfig("broken", text="a: [1,"), SERVING],
        "broken:1:7: not YAML: ",
    ),
    "a kubeconfig without a context": (
        lambda around: [around.kubeconfig("empty", text="{}"), SERVING],
        "empty: current-context is not set",
    ),
    "a wrong token": (
        lambda around: [around.kubeconfig("stranger", token="wrong"), SERVING],
        "does not let us in (401): check the credentials in ",
    ),
    "a server that speaks no TLS": (
        lambda around: (
            [around.kubeconfig("plain", server=around.own_cluster.manager.url.replace("http:", "https:")), SERVING]
        ),
        "failed to wait for apiserver being healthy at https://127.0.0.1:",
    ),
    "a refused connection": (
        lambda _: ["--master=http://127.0.0.1:1", SERVING],
        "cannot connect to http://127.0.0.1:1: connection refused",
    ),
    "a port in use": (
        lambda around: [SERVING, "--address=127.0.0.1", f"--port={around.taken}"],
        "Address already in use (--port names another)",
    ),
    "a port in use for the embedded cluster": (
        lambda around: [SERVING, f"--embedded-dir={around.directory / 'kcm'}", f"--embedded-port={around.taken}"],
        "Address already in use (--embedded-port=0 takes a free one)",
    ),
    "an embedded directory in use": (
        lambda around: [SERVING, f"--embedded-dir={around.embedded_directory}"],
        " is in use by process ",
    ),
    "an embedded directory that is a file": (
        lambda around: [SERVING, f"--embedded-dir={around.file('file', '')}"],
        "/file: File exists",
    ),
    "no manifest": (
        lambda around: [SERVING, f"--apply={around.directory / 'none.yml'}"],
        "none.yml: No such file or directory",
    ),
    "a manifest that is not YAML": (
        lambda around: [SERVING, f"--apply={around.file('bad.yml', 'a: [1,')}"],
        "bad.yml:2:1: not YAML: ",
    ),
    "a manifest of nothing known": (
        lambda around: [
            SERVING,
            f"--embedded-dir={around.directory / 'kcm'}",
            f"--apply={around.file('x.yml', '{apiVersion: v1, kind: Unheard, metadata: {name: a}}')}",
        ],
        r"no matches for kind \"Unheard\" in version \"v1\"",
    ),
    "a manifest for somebody else's cluster": (
        lambda around: [around.kubeconfig("good"), SERVING, f"--apply={around.file('y.yml', NAMESPACE)}"],
        "--apply requires the embedded cluster",
    ),
}
SLOW = {"a refused connection", "a server that speaks no TLS"}  # for 10 s it may still come


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [pytest.param(*case, id=name, marks=[pytest.mark.slow] * (name in SLOW)) for name, case in REFUSED.items()],
)
def test_unusable_arguments_are_reported_in_one_line(
    arguments: Callable[[Surroundings], list[str]], complaint: str, surroundings: Surroundings, forks: Forks
) -> None:
    done = forks.run(*arguments(surroundings))
    assert done.returncode == 1
    complaints = [line for line in done.stderr.splitlines() if line.startswith(("E", "Error:"))]
    assert len(complaints) == 1, done.stderr
    assert complaint in complaints[0]
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("flag", "text", "complaint"),
    [
        ("--apply", "kind: Pod\n", ":1: apiVersion is missing"),
        (
            "--apply",
            "{apiVersion: apps/v1, kind: Deploymnt, metadata: {name: a}}",
            ":1: no matches for kind",
        ),
        ("--journal", "precious", " is no journal"),
        ("--fault-plan", "faults: [", ":1:10: not YAML: "),
    ],
)
def test_unusable_file_is_reported_before_anything_starts(
    flag: str, text: str, complaint: str, tmp_path: Path, forks: Forks
) -> None:
    bad = tmp_path / "bad"
    bad.write_text(text)
    done = forks.run(f"{flag}={bad}", SERVING, f"--embedded-dir={tmp_path / 'kcm'}")
    assert done.returncode == 1
    assert f"{bad}{complaint}" in done.stderr
    assert not (tmp_path / "kcm").exists()
    assert bad.read_text() == text


def test_an_unknown_controller_is_refused_with_those_that_are_known(forks: Forks) -> None:
    done = forks.run("--controllers=*,-nosuch")
    assert done.returncode == 1
    first, known = done.stderr.splitlines()
    assert first == 'Error: "nosuch" is not in the list of known controllers'
    assert {"deployment-controller", "token-cleaner-controller"} <= set(known.partition(": ")[2].split(", "))


def test_a_file_that_may_not_be_read_is_named(surroundings: Surroundings, forks: Forks) -> None:
    path = surroundings.file("secret", "")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("who runs this may read everything")
    done = forks.run(f"--kubeconfig={path}", SERVING)
    assert done.returncode == 1
    assert "secret: permission denied" in done.stderr


def test_the_embedded_cluster_logs_in_the_format_that_was_asked_for(surroundings: Surroundings, forks: Forks) -> None:
    refused = surroundings.file(
        "refused.yml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: none}\n"
    )
    own = f"--embedded-dir={surroundings.directory / 'kcm'}"
    done = forks.run(own, SERVING, f"--apply={refused}", "--hollow-nodes=0", "--logging-format=json")
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {None, "embedded-apiserver"} <= {line.get("logger") for line in lines}
    assert lines[-1]["err"].endswith('namespaces "none" not found')


def test_help_lists_all_groups_of_flags_and_version_is_printed(forks: Forks) -> None:
    done = forks.run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage:\n  kcm [flags]\n" in done.stdout
    for flag in ("--kubeconfig", "--controllers", "--leader-elect", "--embedded-dir", "--apply", "--hollow-nodes"):
        assert f"\n      {flag}" in done.stdout
    done = forks.run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Kubernetes v1.36.")


def test_health_and_metrics_are_served_in_plain_http_where_it_is_asked_for(own_cluster: Site) -> None:
    manager = own_cluster.manager
    assert manager.get("/healthz") == (200, "ok")
    status, page = manager.get("/healthz?verbose")
    assert status == 200
    for name in ("leaderElection", "replicaset-controller", "deployment-controller"):
        assert f"[+]{name} ok\n" in page
    assert manager.metric("rest_client_requests_total", code="200") > 0
    assert manager.metric("workqueue_adds_total", name="replicationmanager") > 0
    assert manager.metric("leader_election_master_status", name="kube-controller-manager") == 1
    assert manager.get("/nothing")[0] == 404


MOST_START_LINES = 20  # without -v, for a first start with a manifest; operators read them


def test_first_start_without_a_terminal_logs_at_most_20_lines(tmp_path: Path) -> None:
    flags = (f"--embedded-dir={tmp_path / 'kcm'}", "--apply=examples/nginx-rc.yml", "--v=0")
    manager = run_kcm(tmp_path / "kcm.log", *flags)
    with ending(manager.program) as program:
        until(lambda: "export KUBECONFIG=" in program.text(), "it greets", why=program.text)
        kubectl = Kubectl(Api(tmp_path / "kcm" / "kubeconfig"), "default")
        until_status(kubectl, "replicationcontrollers", "nginx-server", replicas=2, readyReplicas=2)
        logged = [line for line in program.text().splitlines() if re.match(r"[IWE]\d{4} ", line)]
        assert len(logged) <= MOST_START_LINES, "\n".join(logged)
        assert [line for line in logged if not line.startswith("I")] == []


def test_only_the_controllers_that_are_named_do_their_work(tmp_path: Path) -> None:
    flags = (f"--embedded-dir={tmp_path / 'kcm'}", "--controllers=*,-deployment", "--leader-elect=false")
    manager = run_kcm(tmp_path / "kcm.log", *flags)
    with ending(manager.program) as program:
        until(lambda: '"Caches are synced" controller="replicaset-controller"' in program.text(), "it works")
        kubectl = Kubectl(Api(tmp_path / "kcm" / "kubeconfig"), "default")
        kubectl.apply(workload("Deployment", "idle", 1), workload("ReplicaSet", "web", 1))
        until_status(kubectl, "apps/v1/replicasets", "web", replicas=1, readyReplicas=1)
        assert not kubectl.get("apps/v1/deployments", "idle").get("status")
        lines = [line for line in program.text().splitlines() if 'controller="deployment-controller"' in line]
        assert len(lines) == 1
        assert '"Warning: controller is disabled"' in lines[0]
        assert manager.healthy()
        assert program.terminate() == 0
        assert not kubectl.api.alive(), "the embedded server ends with it"
