"""Tests of run-kcm ctl and top with a live manager: authorization, audit, and controllers switched under load."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import HTTPError

import pytest

from tests.e2e.kubectl import Api, Object
from tests.e2e.programs import ROOT, Program, ending, free_port, hollow_nodes, spawn, until
from tests.e2e.real_server import assets_or_skip, real_server

KCM = [sys.executable, "-P", "-m", "kcm.actors.command"]
MANAGER = "manager-kubeconfig"
KUBECONFIGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
WORKLOADS = "--controllers=deployment,replicaset,serviceaccount"
SPACE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"


@contextmanager
def managing(directory: Path, *flags: str) -> Iterator[Program]:
    """Run a manager with an embedded cluster in a directory, until its pages accept the administrator."""
    command = [*KCM, "--embedded-in-memory", f"--embedded-dir={directory}", "-v=1", *flags]
    program = spawn(command, directory.with_suffix(".log"), cwd=ROOT)

    def is_leading() -> bool:
        assert program.running, program.text()
        try:
            return bool(Api(directory / MANAGER).get("/controllers")["leading"])
        except (OSError, KeyError):
            return False

    with ending(program):
        until(is_leading, "the manager leads", why=program.text)
        yield program


def ctl(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*KCM, "ctl", *arguments, f"--embedded-dir={directory}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)


def audited(program: Program) -> list[tuple[str, str, str, str]]:
    """Return user, action, target and outcome of each request for a change."""
    pattern = r'"control request" user="([^"]+)" groups=\[.*?\] action="([^"]+)" target="([^"]+)" outcome="([^"]+)"'
    return re.findall(pattern, program.text())


def token_of(api: Api, name: str, **paths: list[str]) -> str:
    """Create a service account that may use verbs on non-resource paths, and return a token of it.

    paths: by verb.
    """
    api.request("POST", f"{SPACE}/serviceaccounts", {"metadata": {"name": name}})
    rules = [{"nonResourceURLs": urls, "verbs": [verb]} for verb, urls in paths.items()]
    api.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": reference}
    api.request("POST", f"{RBAC}/clusterrolebindings", binding)
    made = api.request("POST", f"{SPACE}/serviceaccounts/{name}/token", {"spec": {}})
    token: str = made["status"]["token"]
    return token


def test_changes_are_authorized_by_the_cluster_and_audited(tmp_path: Path) -> None:
    directory = tmp_path / "kcm"
    with managing(directory, WORKLOADS, "--hollow-nodes=0") as program:
        pages, api = Api(directory / MANAGER), Api(directory / "kubeconfig")
        paused = pages.request("POST", "/controllers/deployment-controller/pause")
        assert (paused["outcome"], paused["result"]["state"]) == ("Done", "Paused")
        reader = Api(tmp_path / "reader")
        config = json.loads((directory / MANAGER).read_text())
        config["users"][0]["user"]["token"] = token_of(api, "reader", get=["/controllers*"])
        reader.kubeconfig.write_text(json.dumps(config))
        assert reader.get("/controllers/deployment-controller")["controller"]["paused"]
        with pytest.raises(HTTPError) as refused:
            reader.request("POST", "/controllers/deployment-controller/resume")
        assert refused.value.code == 403
        assert pages.get("/controllers/deployment-controller")["controller"]["paused"]
        shown = ctl(directory, "resume", "deployment-controller")
        assert (shown.returncode, shown.stdout) == (0, "controllers/deployment-controller resumed (Running)\n")
        target = "controllers/deployment-controller"
        assert audited(program) == [
            ("kubernetes-admin", "pause", target, "Done"),
            ("system:serviceaccount:default:reader", "resume", target, "Forbidden"),
            ("kubernetes-admin", "resume", target, "Done"),
        ]
    assert not (directory / MANAGER).exists()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_nothing_is_lost_while_controllers_and_rates_change_under_load(tmp_path: Path) -> None:
    """Create, scale and roll out 24 Deployments while ctl switches their controllers, rates and the storm brake."""
    directory, chance = tmp_path / "kcm", random.Random(7)
    with managing(directory, "--hollow-nodes=6") as program:
        pages, api = Api(directory / MANAGER), Api(directory / "kubeconfig")
        wanted: dict[str, tuple[int, str]] = {}
        requested = Counter[str]()
        deadline = time.monotonic() + 25.0
        while time.monotonic() < deadline or len(wanted) < 24:
            name = f"web-{chance.randrange(24)}" if len(wanted) == 24 else f"web-{len(wanted)}"
            replicas, image = chance.randrange(4), f"nginx:{chance.randrange(3)}"
            if name in wanted:
                template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(image)]}}
                change = {"spec": {"replicas": replicas, "template": template}}
                api.request("PATCH", f"{DEPLOYMENTS}/{name}", change, type=MERGE)
            else:
                api.request("POST", DEPLOYMENTS, deployment(name, replicas, image))
            wanted[name] = replicas, image
            controller = chance.choice(("deployment-controller", "replicaset-controller"))
            path, settings = chance.choice(
                [
                    *((f"/controllers/{controller}/{action}", None) for action in ("disable", "pause", "drain")),
                    *((f"/controllers/{controller}/{action}", None) for action in ("enable", "resume", "restart")),
                    (f"/clients/{controller}/rate", {"qps": chance.choice((1, 50, None))}),
                    ("/brake/engage", {"qps": 1}),
                    ("/brake/release", None),
                ]
            )
            try:
                outcome = pages.request("POST", f"{path}?timeout=1", settings)["outcome"]
            except HTTPError as err:
                outcome = str(err.code)
            requested[outcome] += 1
        assert requested["Done"] > 20, requested
        assert requested.keys() <= {"Done", "Unchanged", "Pending", "409"}, requested
        for controller in ("deployment-controller", "replicaset-controller"):
            assert ctl(directory, "enable", controller).returncode == 0
            assert ctl(directory, "resume", controller).returncode == 0
            assert ctl(directory, "rate", "client", controller, "auto").returncode == 0
        assert ctl(directory, "brake", "release").returncode == 0
        expected = {(name, image): replicas for name, (replicas, image) in wanted.items() if replicas}

        def running() -> Counter[tuple[str, str]]:
            pods = [pod for pod in api.get(f"{SPACE}/pods")["items"] if "deletionTimestamp" not in pod["metadata"]]
            return Counter((pod["metadata"]["labels"]["app"], pod["spec"]["containers"][0]["image"]) for pod in pods)

        until(lambda: running() == expected, "all Deployments are as wanted", why=lambda: str(running() - expected))
        assert len(audited(program)) == requested.total() + 7
        zones = json.loads(ctl(directory, "zones", "-o", "json").stdout)["zones"]
        assert [(zone["name"], zone["ready"]) for zone in zones] == [("hollow:zone-a", 3), ("hollow:zone-b", 3)]


@contextmanager
def managing_real_cluster(directory: Path) -> Iterator[tuple[Api, Program, int]]:
    """Run a manager with three controllers and hollow nodes on a kube-apiserver, which reviews its users.

    Yields an administrator of the cluster, the manager, and its secure port.
    """
    assets, place, port = assets_or_skip(), directory / "real", free_port()
    place.mkdir()
    with ExitStack() as closing:
        server = closing.enter_context(real_server(place, assets))
        flags = [f"--{name}={server.manager_kubeconfig}" for name in KUBECONFIGS]
        flags += ["--use-service-account-credentials", "--controllers=deployment,replicaset,nodelifecycle", "-v=1"]
        flags += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        program = closing.enter_context(ending(spawn([*KCM, *flags], directory / "log", cwd=ROOT)))
        closing.enter_context(hollow_nodes(server.kubeconfig, directory / "hollow.log"))
        yield Api(server.kubeconfig), program, port


@pytest.mark.slow
@pytest.mark.cluster
def test_user_of_a_real_cluster_steers_a_rollout_without_losing_anything(tmp_path: Path) -> None:
    """Roll out 40 pods on a kube-apiserver while ctl switches the controllers. Another user may only look."""
    with managing_real_cluster(tmp_path) as (api, program, port):
        changing = [f"/{collection}/*" for collection in ("controllers", "clients", "zones", "brake")]
        reading = ["/controllers", "/clients", "/zones", "/brake", *changing]
        tokens = {
            "operator": token_of(api, "operator", get=reading, post=changing),
            "viewer": token_of(api, "viewer", get=reading),
        }

        def steer(user: str, *arguments: str) -> tuple[int, str]:
            where = [f"--server=https://127.0.0.1:{port}", f"--token={tokens[user]}", "--insecure-skip-tls-verify"]
            command = [*KCM, "ctl", *arguments, *where]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
            assert "Traceback" not in done.stderr
            return done.returncode, done.stdout + done.stderr

        def rolled_out(image: str) -> bool:
            pods = [pod for pod in api.get(f"{SPACE}/pods")["items"] if "deletionTimestamp" not in pod["metadata"]]
            images = Counter(pod["spec"]["containers"][0]["image"] for pod in pods)
            status = api.get(f"{DEPLOYMENTS}/web")["status"]
            return images == {image: 40} and status.get("availableReplicas") == status.get("updatedReplicas") == 40

        def roll_out(image: str) -> None:
            api.request("PATCH", f"{DEPLOYMENTS}/web", {"spec": deployment("web", 40, image)["spec"]}, type=MERGE)

        until(lambda: "Running" in steer("viewer", "list")[1], "the manager leads", why=program.text)
        api.request("POST", DEPLOYMENTS, deployment("web", 40, "nginx:1"))
        until(lambda: rolled_out("nginx:1"), "the Deployment is available", why=program.text)
        for image, actions in (
            ("nginx:2", ("disable replicaset-controller", "enable replicaset-controller")),
            ("nginx:3", ("disable deployment-controller", "enable deployment-controller")),
            ("nginx:4", ("pause replicaset-controller", "resume replicaset-controller")),
            ("nginx:5", ("drain deployment-controller", "resume deployment-controller")),
            ("nginx:6", ("restart replicaset-controller", "restart deployment-controller")),
            ("nginx:7", ("rate client replicaset-controller 5", "rate client replicaset-controller auto")),
            ("nginx:8", ("brake engage", "brake release")),
        ):
            roll_out(image)
            for action in actions:
                assert steer("operator", *action.split())[0] == 0, action
                status, shown = steer("viewer", *action.split())
                assert (status, "cannot post path" in shown) == (1, True), shown
        until(lambda: rolled_out("nginx:8"), "the last change is rolled out", why=program.text)
        assert steer("operator", "rate", "zone", "hollow:zone-a", "0.5")[0] == 0
        for listing in ("list", "zones", "clients", "brake"):
            assert steer("viewer", listing)[0] == 0, listing
        requests = audited(program)
        assert Counter((user.rpartition(":")[2], outcome) for user, _, _, outcome in requests) == {
            ("operator", "Done"): 15,
            ("viewer", "Forbidden"): 14,
        }
        assert requests[:2] == [
            (f"system:serviceaccount:default:{user}", "disable", "controllers/replicaset-controller", outcome)
            for user, outcome in (("operator", "Done"), ("viewer", "Forbidden"))
        ]


@pytest.mark.slow
def test_live_screen_follows_the_manager_and_restores_the_terminal(tmp_path: Path) -> None:
    directory = tmp_path / "kcm"
    with managing(directory, WORKLOADS, "--hollow-nodes=0"):
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        before, environ = termios.tcgetattr(its), {**os.environ, "TERM": "xterm"}
        command = [*KCM, "top", f"--embedded-dir={directory}"]
        top = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, cwd=ROOT, env=environ)
        shown = b""

        def shows(text: bytes) -> bool:
            nonlocal shown
            assert top.poll() is None, shown
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536)
            return text in shown

        try:
            until(lambda: shows(b"replicaset"), "the screen is drawn")
            assert ctl(directory, "pause", "replicaset-controller").returncode == 0
            until(lambda: shows(b"Paused"), "the screen shows the change")
            os.write(ours, b"q")
            assert top.wait(10.0) == 0
            assert termios.tcgetattr(its) == before
        finally:
            top.kill()
            top.wait()
            os.close(its)
            os.close(ours)
        command = [*KCM, "top", "--once", f"--embedded-dir={directory}"]
        once = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
        assert "replicaset" in once.stdout
        assert "\x1b" not in once.stdout


def container(image: str) -> Object:
    return {"name": "c", "image": image}


def deployment(name: str, replicas: int, image: str) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container(image)]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}
