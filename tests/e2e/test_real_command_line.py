"""Comparison of the flags of kube-controller-manager with those of kcm; see docs/next-release.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options.feature_gates import BULK, GATES
from kcm.actors.options.known_gates import ALPHA, BETA
from tests.e2e.programs import ROOT
from tests.e2e.real_server import binaries

# Flags and controllers that OpenShift's builds have beside upstream's.
NOT_UPSTREAM = {"unsupported-kube-api-over-localhost", "service-ca-certificate-publisher-controller"}
OURS = {"TaintBasedEvictions"}  # a gate of old releases

_FLAG = re.compile(r"^ +(?:-\w, )?--([a-zA-Z0-9-]+)", re.MULTILINE)
_GATE = re.compile(r"kube:(\w+)=true\|false \((\w+) - default=(\w+)\)")

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def real_help() -> str:
    assets = binaries()
    if assets is None or not (assets / "kube-controller-manager").exists():
        pytest.skip("there is no kube-controller-manager: KUBEBUILDER_ASSETS names the directory with it")
    command = [str(assets / "kube-controller-manager"), "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_every_flag_is_understood(real_help: str) -> None:
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "--help"]
    ours = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT).stdout
    assert set(_FLAG.findall(real_help)) - set(_FLAG.findall(ours)) <= NOT_UPSTREAM


def test_controllers_have_the_same_names_and_are_off_where_they_are_off(real_help: str) -> None:
    known = {spec.name: spec.on_by_default for spec in BUILT_IN}
    assert set(known) == names(real_help, "All controllers") - NOT_UPSTREAM
    assert {name for name, on in known.items() if not on} == names(real_help, "Disabled-by-default controllers")


def names(text: str, heading: str) -> set[str]:
    found = re.search(rf"{heading}: ([a-z, -]+)", text)
    assert found is not None
    return {name.strip() for name in found[1].split(",")}


def test_feature_gates_have_the_same_stage_and_default(real_help: str) -> None:
    """Help leaves out those that are settled or deprecated. A distribution may have some of its own."""
    real = {name: (stage, default == "true") for name, stage, default in _GATE.findall(real_help)}
    ours = {name: gate for name, gate in GATES.items() if gate.stage in (ALPHA, BETA)}
    assert ours.keys() - OURS <= real.keys()
    assert len(real.keys() - ours.keys() - BULK.keys()) < 5
    assert {name: (gate.stage, gate.default) for name, gate in ours.items()} == {name: real[name] for name in ours}


@pytest.mark.parametrize(
    "arguments",
    [
        "--emulated-version=1.30",
        "--emulated-version=1.32",
        "--emulated-version=1.99",
        "--emulated-version=1.35.1",
        "--emulated-version=1",
        "--emulated-version=bogus",
        "--emulated-version=foo=1.35",
        "--emulated-version=1.34,1.35",
        "--emulated-version=1.33 --min-compatibility-version=1.34",
        "--min-compatibility-version=1.30",
        "--min-compatibility-version=1.37",
        "--emulated-version=1.33 --feature-gates=WorkloadWithJob=true",
        "--emulated-version=1.33 --feature-gates=AuthorizeWithSelectors=false",
        "--emulated-version=1.35 --feature-gates=DynamicResourceAllocation=false",
        "--feature-gates=WorkloadWithJob=true",
        "--feature-gates=PodLevelResources=false",
        "--feature-gates=kube:HPAScaleToZero=true,PodDeletionCost=true",
        "--feature-gates=HPAScaleToZero=maybe",
        "--feature-gates=foo:HPAScaleToZero=true",
        "--log-flush-frequency=0s",
        "--log-flush-frequency=-1s --secure-port=99999",
        "--log-text-split-stream",
        "--log-json-split-stream --log-text-info-buffer-size=1Ki --logging-format=bogus",
        "--log-text-info-buffer-size=1K",
        "--log-json-info-buffer-size=abc",
        "--log-json-info-buffer-size=1.2.3",
        "--logging-format=json --vmodule=a=1",
        "--vmodule=a",
        "--vmodule=a=b",
        "--vmodule=a=-1",
        "--vmodule=a=99999999999",
        "--v=-1",
        "--v=a",
        "--secure-port=99999",
        "--controllers=bogus",
        "--leader-elect-resource-lock=configmaps",
        "--cloud-provider=aws",
        "--cidr-allocator-type=Bogus",
        "--concurrent-job-syncs=abc",
        "--concurrent-daemonset-syncs=0",
        "--max-endpoints-per-slice=2000",
        "--mirroring-max-endpoints-per-subset=0",
        "--attach-detach-reconcile-sync-period=0s",
        "--cluster-signing-cert-file=/a --cluster-signing-kube-apiserver-client-cert-file=/b",
        "--horizontal-pod-autoscaler-sync-period=abc",
        "--kube-api-burst=1.5",
        "--kubeconfig=/nonexistent",
        "--kubeconfig=/dev/null",
        "--kubeconfig=/tmp",
    ],
)
def test_malformed_value_is_refused_with_the_same_text(real_help: str, arguments: str, tmp_path: Path) -> None:
    assets = binaries()
    assert real_help
    assert assets is not None
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_SERVICE")}
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(NOWHERE)
    given = [f"--kubeconfig={nowhere}", "--secure-port=0", *arguments.split()]
    real = [str(assets / "kube-controller-manager"), *given]
    ours = [sys.executable, "-P", "-m", "kcm.actors.command", *given]
    texts = []
    for command in (real, ours):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environ, cwd=ROOT)
        assert done.returncode == 1
        # 1.37 is the newest release that kcm emulates.
        texts.append(_refusal(done.stderr).replace("1.37.0]", "1.36.0]"))
    assert texts[0] == texts[1]


NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
users: [{name: a, user: {}}]
"""


def _refusal(text: str) -> str:
    """The error alone: the real program logs it, or prints it after its usage."""
    logged = re.search(r'"command failed" err(?:or)?="(.*)"$', text, re.MULTILINE)
    if logged is not None:
        return re.sub(r"\\(.)", r"\1", logged[1])
    printed = re.search(r"^Error: (.*)$", text, re.MULTILINE)
    assert printed is not None, text
    return printed[1]


def test_every_feature_gate_can_be_named_to_the_real_program() -> None:
    """The program ends because it has no cluster, after it has parsed its flags."""
    assets = binaries()
    if assets is None or not (assets / "kube-controller-manager").exists():
        pytest.skip("there is no kube-controller-manager: KUBEBUILDER_ASSETS names the directory with it")
    settings = ",".join(f"{name}={str(gate.default).lower()}" for name, gate in GATES.items() if name not in OURS)
    command = [str(assets / "kube-controller-manager"), "--secure-port=0", f"--feature-gates={settings}"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_SERVICE")}
    errors = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environ).stderr
    assert "feature gate" not in "".join(line for line in errors.splitlines() if '"command failed"' in line)
