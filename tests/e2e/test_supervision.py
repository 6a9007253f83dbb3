"""Processes of run-kcm that can no longer work."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.kubectl import Api
from tests.e2e.programs import Manager, ending, run_kcm, spawn, until

HANGS = """
faults:
  - {kind: actor-hung, actor: controller-manager, start: 3s, most: 1}
"""
BLOCKS = """
faults:
  - {kind: reconciler-blocked, actor: "controller:replicaset-controller", object: default/stuck, most: 1}
"""
REPLICA_SET = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: NAME, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: main, image: "nginx:1"}]}
"""
# Manager whose HTTP loop ends by itself: a callback raises SystemExit, which is not an Exception.
BREAKS = """
import sys, threading
from kcm.actors.command import run_kcm
from kcm.actors.command import run as running
from kcm.runtime.client.api import Request

plain = running.build_system

def build_system(launch, closing, *, transport, **more):
    system = plain(launch, closing, transport=transport, **more)
    request = Request(method="GET", path="/version")
    threading.Timer(2.0, transport.send, (request,), {"client": "kcm", "on_response": sys.exit}).start()
    return system

running.build_system = build_system
sys.exit(run_kcm.main(sys.argv[1:]))
"""


def test_a_manager_that_hangs_ends_its_process(tmp_path: Path) -> None:
    (tmp_path / "plan.yml").write_text(HANGS)
    manager = run_kcm(
        tmp_path / "output",
        f"--embedded-dir={tmp_path / 'kcm'}",
        f"--fault-plan={tmp_path / 'plan.yml'}",
        "--actor-hang-timeout=1s",
        "--hollow-nodes=0",
    )
    with ending(manager.program):
        assert manager.program.process.wait(60.0) == 1
    (line,) = [line for line in manager.program.text().splitlines() if "controller manager gives up" in line]
    assert "controller-manager hangs: it has said nothing for" in line
    assert "runtime/faults/actors.py" in manager.program.text(), "its stack is shown"


def test_a_reconciler_that_waits_costs_its_own_key_and_is_shown(tmp_path: Path) -> None:
    (tmp_path / "plan.yml").write_text(BLOCKS)
    (tmp_path / "sets.yml").write_text("---".join(REPLICA_SET.replace("NAME", name) for name in ("stuck", "web")))
    manager = run_kcm(
        tmp_path / "output",
        f"--embedded-dir={tmp_path / 'kcm'}",
        f"--apply={tmp_path / 'sets.yml'}",
        f"--fault-plan={tmp_path / 'plan.yml'}",
        "--actor-hang-timeout=2s",
        "--hollow-nodes=0",
    )
    with ending(manager.program):
        text = manager.program.text
        until(lambda: '"actor hangs"' in text(), "the hang is noticed", why=text)
        (line,) = [line for line in text().splitlines() if '"actor hangs"' in line]
        assert 'doing="replicaset default/stuck"' in line
        assert "runtime/faults/actors.py" in text(), "the stack of its thread is shown"
        api = Api(tmp_path / "kcm" / "kubeconfig")

        def pods() -> list[str]:
            items = api.get("/api/v1/namespaces/default/pods")["items"]
            return sorted(pod["metadata"]["labels"]["app"] for pod in items)

        until(lambda: pods() == ["web", "web"], "the other key goes on", why=text)
        until(lambda: "stuck: replicaset default/stuck" in failing(manager), "the check says it", why=text)
        status, page = manager.get("/healthz?verbose")
        assert status == 500
        assert "[-]replicaset-controller failed: stuck\n" in page
        succeeded = {"name": "replicaset-controller", "result": "success"}
        until(lambda: manager.metric("kcm_reconciliations_total", **succeeded) > 0, "the other key succeeded", why=text)
        assert manager.metric("kcm_hung_threads", actor="controller:replicaset-controller") == 1
        assert manager.program.terminate() == 0


def failing(manager: Manager) -> str:
    """Request /healthz, and return the log, which contains the reasons of failed checks."""
    status, _ = manager.get("/healthz")
    assert status in (0, 200, 500)
    return manager.program.text()


def test_process_whose_http_thread_ended_exits_and_logs_the_reason(tmp_path: Path) -> None:
    flags = (f"--embedded-dir={tmp_path / 'kcm'}", "--secure-port=0", "--hollow-nodes=0")
    program = spawn([sys.executable, "-P", "-c", BREAKS, *flags], tmp_path / "output")
    with ending(program):
        assert program.process.wait(60.0) == 1
    until(lambda: not program.descendants(), "its children have ended as well")
    assert "the client of the API server is broken: SystemExit: " in program.text()
    assert '"event loop ended"' in program.text()
