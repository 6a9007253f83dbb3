"""Texts of log lines of kube-controller-manager and kcm at --v=2, from start to clean end, after the same work.

`log_differences.yml` lists upstream's lines that kcm does not write, with the reasons.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcm.protocols.times import format_micro_time
from tests.e2e.kubectl import Api
from tests.e2e.programs import Program, ending, free_port, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(400)]

DIFFERENCES = Path(__file__).parent / "log_differences.yml"
LINE = re.compile(r'^([IWEF])\d{4} \S+ +\d+ (\S+)\] (?:"((?:[^"\\]|\\.)*)"|(.*))')
FLAG = re.compile(r'FLAG: --([\w-]+)="(.*)"$', re.MULTILINE)
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
# Lines about failed requests, which a slow machine causes on either side.
OF_FAILURES = {
    "Error retrieving lease lock",
    "Failed to update lease",
    "Failed to update lease optimistically, falling back to slow path",
}
END = '"Failed to renew lease"'
LOCK = 'lock="kube-system/kube-controller-manager"'
FLAGS = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
    # Without it the real manager ends at once after the loss of the Lease, before its controllers log their end.
    "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true",
)
OTHER_FLAGS = {"openshift-config", "unsupported-kube-api-over-localhost"}  # of OpenShift's builds
DISTINCT_VALUES = {
    "secure-port",
    "feature-gates",  # the real program writes a colon before each gate
    "node-monitor-grace-period",  # 40s in kcm, 50s in Kubernetes since 1.32
}


@contextmanager
def manager(who: str, server: RealServer, log: Path) -> Iterator[Program]:
    command = {
        "kube-controller-manager": [str(server.binaries / "kube-controller-manager")],
        "kcm": [sys.executable, "-P", "-m", "kcm.actors.command"],
    }
    given = (f"--kubeconfig={server.kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}", "--v=2")
    flex = f"--flex-volume-plugin-dir={server.directory / 'flex'}"
    with ending(spawn([*command[who], *given, flex, *FLAGS], log)) as program:
        yield program


def messages(text: str) -> dict[str, set[str]]:
    """Return the severities of each message, with addresses and paths replaced.

    After the end of the lease, lines about interrupted requests are left out: each run interrupts other requests.
    """
    found: dict[str, set[str]] = {}
    ended = False
    for line in text.splitlines():
        ended = ended or END in line
        match = LINE.match(line)
        if match is None or "FLAG: --" in line or (ended and "context canceled" in line):
            continue
        message = match[3] if match[3] is not None else match[4]
        message = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", re.sub(r"(?<= )/\S+", "PATH", message))
        found.setdefault(message, set()).add(match[1])
    return found


def work(api: Api, name: str) -> None:
    """Create a Deployment and a namespace, wait for their contents, and delete them."""
    labels = {"app": name}
    template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    api.request("POST", deployments, {"metadata": {"name": name}, "spec": spec})
    pods = f"/api/v1/namespaces/default/pods?labelSelector=app={name}"
    until(lambda: len(api.get(pods)["items"]) == 2, "pods are created")
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    until(lambda: api.get(f"/api/v1/namespaces/{name}/serviceaccounts")["items"], "the service account is created")
    api.request("DELETE", f"{deployments}/{name}")
    api.request("DELETE", f"/api/v1/namespaces/{name}")
    until(lambda: not api.get(pods)["items"], "pods are deleted")
    until(lambda: name not in {item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]}, "the end")


def steal(api: Api) -> None:
    """Write another holder into the Lease."""
    lease = api.get(LEASE)
    lease["spec"]["holderIdentity"] = "thief"
    lease["spec"]["renewTime"] = format_micro_time(datetime.now(UTC).timestamp())
    api.request("PUT", LEASE, lease)


def started(program: Program) -> bool:
    return program.text().count("Caches are synced") > 25


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the log of each program, which ends when its Lease is stolen. kcm also ends by SIGTERM once.

    The real manager ends by a signal without a line.
    """
    with real_server(tmp_path_factory.mktemp("server"), assets_or_skip()) as server:
        api, texts = Api(server.kubeconfig), {}
        for who, end in (("kube-controller-manager", "theft"), ("kcm", "signal"), ("kcm", "theft")):
            log = server.directory / f"{who}-{end}.log"
            with manager(who, server, log) as program:
                until(lambda program=program: started(program), "controllers have started", why=program.text)  # type: ignore[misc]
                work(api, "web")
                if end == "signal":
                    program.terminate()
                else:
                    steal(api)
                    until(lambda program=program: not program.running, "it ends", why=program.text)  # type: ignore[misc]
            texts[who] = texts.get(who, "") + log.read_text(errors="replace")
    return texts


def test_every_line_of_upstream_is_written_or_listed_with_a_reason(logs: dict[str, str]) -> None:
    theirs, ours = messages(logs["kube-controller-manager"]), messages(logs["kcm"])
    groups = yaml.safe_load(DIFFERENCES.read_text())
    assert all(group["reason"] for group in groups)
    listed = {message for group in groups for message in group["messages"]}
    assert sorted(set(theirs) - set(ours) - listed - OF_FAILURES) == []
    assert sorted(listed & set(ours)) == []
    common = set(theirs) & set(ours)
    assert {message: ours[message] for message in common} == {message: theirs[message] for message in common}


def test_lines_about_the_lease_are_equal(logs: dict[str, str]) -> None:
    for text in logs.values():
        assert re.search(rf'\] "Attempting to acquire leader lease\.\.\." {LOCK}', text)
        assert re.search(rf'\] "Successfully acquired lease" {LOCK}', text)
        assert re.search(rf'\] "Failed to renew lease" {LOCK} err=', text)
        assert '] "leaderelection lost/stopped"' in text
        assert re.search(r'\] "Event occurred".* reason="LeaderElection" message="\S+ became leader"', text)


def test_lines_about_the_start_of_controllers_have_equal_texts(logs: dict[str, str]) -> None:
    theirs, ours = (set(re.findall(r'\] "(Starting(?: [^"]+)?)"((?: name="\S+")?)', text)) for text in logs.values())
    assert len(ours) > 20
    assert sorted(ours - theirs) == []


def test_every_controller_logs_its_end(logs: dict[str, str]) -> None:
    ours = logs["kcm"]
    ends = len(re.findall(r'\] "(?:Shutting|Shut) down', ours))
    assert ends == len(re.findall(r'\] "Controller terminated"', ours)) > 25
    assert '] "All controllers terminated"' in ours


def test_flags_are_logged_alike(logs: dict[str, str]) -> None:
    theirs, ours = dict(FLAG.findall(logs["kube-controller-manager"])), dict(FLAG.findall(logs["kcm"]))
    assert theirs.keys() - ours.keys() == OTHER_FLAGS
    same = theirs.keys() - OTHER_FLAGS - DISTINCT_VALUES
    assert {name: ours[name] for name in same} == {name: theirs[name] for name in same}
