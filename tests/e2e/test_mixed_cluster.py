"""The recipe in docs/mixed-cluster.md: each controller runs in kube-controller-manager or in kcm."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import NEEDS_KUBECTL, in_namespace
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import ROOT, ending, free_port, spawn, until
from tests.e2e.real_server import assets_or_skip, real_server
from tests.e2e.scenarios import until_status, workload

PAGE = ROOT / "docs" / "mixed-cluster.md"
MOVED = "persistentvolume-attach-detach-controller"  # the controller that stays with kube-controller-manager
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def recipe() -> list[list[str]]:
    """Return the command lines of the recipe, split into words."""
    lines = re.findall(r"^ {8}(\S.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line) for line in lines]


def command(program: str, kubeconfig: Path) -> list[str]:
    """Return the flags that the recipe gives a program, with this kubeconfig."""
    (found,) = [words[1:] for words in recipe() if words[0] == program]
    return [f"--kubeconfig={kubeconfig}" if word.startswith("--kubeconfig=") else word for word in found]


def test_no_controller_runs_in_both_managers_of_the_recipe() -> None:
    chosen = [
        word.partition("=")[2].split(",")
        for program in ("kube-controller-manager", "bin/run-kcm")
        for word in command(program, Path())
        if word.startswith("--controllers=")
    ]
    assert chosen == [[MOVED], ["*", f"-{MOVED}"]]


@pytest.mark.cluster
@pytest.mark.slow
@NEEDS_KUBECTL
def test_recipe_runs_both_managers_side_by_side(tmp_path: Path) -> None:
    assets = assets_or_skip()
    if not (assets / "kube-controller-manager").exists():
        pytest.skip("there is no kube-controller-manager in KUBEBUILDER_ASSETS")
    with real_server(tmp_path, assets) as server:
        admin = Kubectl(Api(server.kubeconfig), "kube-system")
        until(lambda: admin.api.get("/api/v1/namespaces/kube-system"), "bootstrapped")
        for words in recipe():
            if words[:3] == ["kubectl", "-n", "kube-system"] and words[3] == "create":
                admin.run(*words[3:])
        real = [
            str(assets / "kube-controller-manager"),
            *command("kube-controller-manager", server.manager_kubeconfig),
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
            f"--flex-volume-plugin-dir={tmp_path / 'flex'}",
        ]
        ours = [sys.executable, "-P", "-m", "kcm.actors.command", *command("bin/run-kcm", server.manager_kubeconfig)]
        ours += ["--secure-port=0"]
        with ending(spawn(real, tmp_path / "real.log")) as rest, ending(spawn(ours, tmp_path / "ours.log")) as kcm:

            def holder(name: str) -> str:
                found = [lease for lease in admin.api.get(LEASES)["items"] if lease["metadata"]["name"] == name]
                return str(found[0]["spec"].get("holderIdentity") or "") if found else ""

            def logs() -> str:
                return rest.text()[-3000:] + kcm.text()[-3000:]

            until(lambda: holder("kube-controller-manager"), "kcm leads", why=logs)
            until(lambda: holder("kube-controller-manager-rest"), "kube-controller-manager leads", why=logs)
            assert holder("kube-controller-manager") != holder("kube-controller-manager-rest")
            kubectl = in_namespace(server.kubeconfig, "mixed")
            deployment = workload("Deployment", "web", 1)
            volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}
            deployment["spec"]["template"]["spec"]["volumes"] = [volume]
            kubectl.apply(deployment)
            until_status(kubectl, "apps/v1/deployments", "web", replicas=1)  # by kcm

            def claims() -> list[str]:
                items = kubectl.api.get("/api/v1/namespaces/mixed/persistentvolumeclaims")["items"]
                return [claim["metadata"]["name"] for claim in items]

            (claim,) = until(claims, "the ephemeral volume gets its claim", why=logs)  # by kcm
            assert re.fullmatch(r"web-\w+-\w+-scratch", claim)


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
