"""Helm: a chart with a CustomResourceDefinition, hooks and a test, through a release's whole life."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.kubectl import Kubectl, name_of

CHART = Path(__file__).parent / "charts" / "greeter"
PATIENCE = "120s"  # that Helm has for what it waits for

pytestmark = pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")


@dataclass(frozen=True)
class Helm:
    """Helm for the namespace of a test."""

    kubectl: Kubectl
    home: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        config = self.kubectl.api.kubeconfig
        command = ["helm", *arguments, f"--kubeconfig={config}", f"--namespace={self.kubectl.namespace}"]
        homes = {f"HELM_{each}_HOME": str(self.home / each) for each in ("CACHE", "CONFIG", "DATA")}
        return subprocess.run(command, env=os.environ | homes, capture_output=True, text=True, timeout=180, check=False)

    def __call__(self, *arguments: str) -> str:
        """Run Helm and return its output. Fails the test if Helm fails."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}\n{self.kubectl.state()}"
        return done.stdout

    def history(self, release: str) -> list[tuple[int, str]]:
        """Revisions with their states."""
        revisions = json.loads(self("history", release, "--output=json"))
        return [(revision["revision"], revision["status"]) for revision in revisions]


@pytest.fixture
def helm(kubectl: Kubectl, tmp_path: Path) -> Helm:
    return Helm(kubectl, tmp_path)


def test_a_release_is_installed_upgraded_rolled_back_and_uninstalled(helm: Helm) -> None:
    kubectl = helm.kubectl
    helm("install", "shop", str(CHART), "--wait", f"--timeout={PATIENCE}")
    first = kubectl.ready_pods("app=shop")
    assert len(first) == 2
    assert kubectl.get("charts.example.com/v1/greetings", "shop")["spec"] == {"text": "hello", "times": 1}
    left = kubectl.until_pods(2)
    assert {name_of(pod) for pod in left} == {name_of(pod) for pod in first}, "the hooks' pods are deleted"
    assert not kubectl.items("batch/v1/jobs"), "the hook's Job has succeeded"

    helm(
        "upgrade", "shop", str(CHART), "--wait", f"--timeout={PATIENCE}", "--set=greeting=ahoy,portName=web,replicas=3"
    )
    assert len(kubectl.until_pods(3, "app=shop")) == 3
    (port,) = kubectl.get("services", "shop")["spec"]["ports"]
    assert (port["name"], port["targetPort"]) == ("web", "web")
    data = kubectl.get("configmaps", "shop")["data"]
    assert data["GREETING"] == "ahoy"
    assert json.loads(data["BEFORE"])["GREETING"] == "hello", "what the chart has looked up"
    assert data["KUBERNETES"].startswith("v1.36")
    assert "Succeeded" in helm("test", "shop", f"--timeout={PATIENCE}")

    helm("rollback", "shop", "1", "--wait", f"--timeout={PATIENCE}")
    assert kubectl.get("configmaps", "shop")["data"]["GREETING"] == "hello"
    assert helm.history("shop") == [(1, "superseded"), (2, "superseded"), (3, "deployed")]

    helm("uninstall", "shop", "--wait", f"--timeout={PATIENCE}")
    kubectl.until_pods(0, "app=shop")
    for resource in ("apps/v1/deployments", "services", "charts.example.com/v1/greetings", "secrets"):
        assert not kubectl.items(resource), resource


def test_refused_upgrade_names_the_reason_and_failed_hook_changes_nothing(helm: Helm) -> None:
    kubectl = helm.kubectl
    helm("install", "shop", str(CHART), "--wait", f"--timeout={PATIENCE}")
    before = kubectl.get("apps/v1/deployments", "shop")

    refused = helm.run("upgrade", "shop", str(CHART), "--set=greeting=x")
    assert refused.returncode != 0
    assert "spec.text: Invalid value" in refused.stderr
    assert "should be at least 2 chars long" in refused.stderr

    failed = helm.run("upgrade", "shop", str(CHART), "--set=migration=false,replicas=5", f"--timeout={PATIENCE}")
    assert failed.returncode != 0
    assert "pre-upgrade hooks failed" in failed.stderr
    assert kubectl.get("apps/v1/deployments", "shop")["spec"]["replicas"] == before["spec"]["replicas"]
    assert helm.history("shop") == [(1, "deployed"), (2, "failed"), (3, "failed")]
