"""Commands of kubectl on the embedded API server alone, without controllers."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import brief

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
    pytest.mark.timeout(120),
]

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
  - name: nginx
    image: nginx:1
    ports: [{containerPort: 80}]
"""


@dataclass(frozen=True)
class Kubectl:
    """Command kubectl for one namespace."""

    kubeconfig: Path
    cache: Path
    namespace: str

    def command(self, *arguments: str) -> list[str]:
        flags = (f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}", f"--namespace={self.namespace}")
        return ["kubectl", *flags, *arguments]

    def run(self, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), input=given, capture_output=True, text=True, timeout=30, env=brief()
        )

    def __call__(self, *arguments: str, given: str = "") -> str:
        """Run kubectl and return its output. Fails the test if kubectl fails."""
        done = self.run(*arguments, given=given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def refused(self, *arguments: str, given: str = "") -> str:
        """Run kubectl and return its error. Fails the test if kubectl succeeds."""
        done = self.run(*arguments, given=given)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)}: {done.stdout}"
        return done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    server = launch(ServerSettings(directory=tmp_path_factory.mktemp("embedded") / "kcm"))
    yield server.kubeconfig
    server.stop()


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Kubectl:
    name = f"t{crc32(request.node.name.encode())}"
    own = Kubectl(kubeconfig, kubeconfig.parent / "cache", name)
    own("create", "namespace", name)
    return own


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_resources_are_discovered_with_their_short_names(kubectl: Kubectl) -> None:
    rows = {row[0]: row for row in words(kubectl("api-resources", "--no-headers"))}
    assert rows["deployments"] == ["deployments", "deploy", "apps/v1", "true", "Deployment"]
    assert rows["namespaces"] == ["namespaces", "ns", "v1", "false", "Namespace"]
    assert "apps/v1" in kubectl("api-versions").split()
    assert kubectl("get", "po,deploy,rs,rc,svc,ev", "-o", "name") == ""
    assert json.loads(kubectl("version", "-o", "json"))["serverVersion"]["minor"] == "36"


def test_an_object_is_created_shown_and_deleted(kubectl: Kubectl) -> None:
    assert kubectl("create", "-f", "-", given=POD) == "pod/web created\n"
    header, row = words(kubectl("get", "pods"))
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert row[:2] == ["web", "0/1"]
    wide = kubectl("get", "pod", "web", "-o", "wide").splitlines()[0]
    assert wide.split("AGE")[1].split() == ["IP", "NODE", "NOMINATED", "NODE", "READINESS", "GATES"]
    described = kubectl("describe", "pod", "web")
    assert "Image:        nginx:1" in described
    assert 'pods "web" already exists' in kubectl.refused("create", "-f", "-", given=POD)
    assert kubectl("delete", "pod", "web", "--now").startswith('pod "web" deleted')
    assert 'pods "web" not found' in kubectl.refused("get", "pod", "web")


def test_kinds_are_created_from_flags(kubectl: Kubectl) -> None:
    """These commands send protobuf."""
    kubectl("create", "deployment", "redis", "--image=redis", "--replicas=0", "--port=6379")
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:http")
    kubectl("create", "job", "j", "--image=x", "--", "true")
    kubectl("create", "quota", "q", "--hard=pods=3,cpu=2")
    kubectl("create", "pdb", "p", "--selector=a=b", "--min-available=50%")
    assert kubectl.json("get", "deploy", "redis")["spec"]["replicas"] == 0
    assert kubectl.json("get", "secret", "s")["data"] == {"a": "Yg=="}
    assert kubectl.json("get", "quota", "q")["spec"]["hard"] == {"cpu": "2", "pods": "3"}
    assert kubectl.json("get", "service", "svc")["spec"]["ports"][0]["targetPort"] == "http"
    assert words(kubectl("get", "deploy", "redis"))[0] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert words(kubectl("get", "pdb", "p", "--no-headers"))[0][:4] == ["p", "50%", "N/A", "0"]
    kubectl("delete", "deploy/redis", "cm/c", "secret/s", "svc/svc", "job/j", "quota/q", "pdb/p")


def test_fields_are_explained(kubectl: Kubectl) -> None:
    explained = kubectl("explain", "deployment.spec.strategy")
    assert "FIELD: strategy <DeploymentStrategy>" in explained
    assert "The deployment strategy to use to replace existing pods with new ones." in explained
    assert "rollingUpdate\t<RollingUpdateDeployment>" in explained
    assert "-required-" in kubectl("explain", "pod.spec.containers")
    assert 'field "nothing" does not exist' in kubectl.refused("explain", "pod.spec.nothing")


def test_stray_fields_are_refused_before_anything_is_stored(kubectl: Kubectl) -> None:
    stray = POD.replace("image:", "imag:")
    assert 'unknown field "spec.containers[0].imag"' in kubectl.refused("create", "-f", "-", given=stray)
    assert 'unknown field "spec.containers[0].imag"' in kubectl.refused("apply", "-f", "-", given=stray)
    assert 'pods "web" not found' in kubectl.refused("get", "pod", "web")
    warned = kubectl.run("create", "--validate=warn", "-f", "-", given=POD + "spek: {}\n")
    assert (warned.returncode, warned.stderr) == (0, 'Warning: unknown field "spek"\n')


def test_a_list_is_applied_item_by_item(kubectl: Kubectl) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    many = {"apiVersion": "v1", "kind": "List", "items": [config, {**config, "metadata": {"name": "d"}}]}
    assert kubectl("apply", "-f", "-", given=json.dumps(many)) == "configmap/c created\nconfigmap/d created\n"
    stray = {"apiVersion": "v1", "kind": "List", "items": [{**config, "stray": 1}]}
    assert 'unknown field "stray"' in kubectl.refused("apply", "-f", "-", given=json.dumps(stray))


def test_apply_changes_what_changed_and_nothing_else(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", given=POD) == "pod/web created\n"
    assert kubectl("apply", "-f", "-", given=POD) == "pod/web unchanged\n"
    kubectl("label", "pod", "web", "mine=yes")
    changed = POD.replace("nginx:1", "nginx:2")
    assert kubectl("apply", "-f", "-", given=changed) == "pod/web configured\n"
    pod = kubectl.json("get", "pod", "web")
    assert pod["metadata"]["labels"] == {"app": "web", "mine": "yes"}
    assert pod["spec"]["containers"][0]["image"] == "nginx:2"
    assert pod["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"
    differences = kubectl.run("diff", "-f", "-", given=POD)
    assert differences.returncode == 1
    assert "+  - image: nginx:1" in differences.stdout


def test_apply_on_the_servers_side_and_dry_runs(kubectl: Kubectl) -> None:
    assert kubectl("apply", "--dry-run=server", "-f", "-", given=POD) == "pod/web created (server dry run)\n"
    assert 'pods "web" not found' in kubectl.refused("get", "pod", "web")
    assert kubectl("apply", "--server-side", "-f", "-", given=POD) == "pod/web serverside-applied\n"
    changed = POD.replace("nginx:1", "nginx:2")
    assert kubectl("apply", "--server-side", "-f", "-", given=changed) == "pod/web serverside-applied\n"
    assert kubectl.json("get", "pod", "web")["spec"]["containers"][0]["image"] == "nginx:2"


@pytest.mark.parametrize(
    "type_, patch",
    [
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:9"}]}}}}'),
        ("merge", '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:9"}]}}}}'),
        ("json", '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:9"}]'),
    ],
)
def test_patches_of_every_type(kubectl: Kubectl, type_: str, patch: str) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--port=80")
    assert kubectl("patch", "deploy", "web", f"--type={type_}", "-p", patch) == "deployment.apps/web patched\n"
    (container,) = kubectl.json("get", "deploy", "web")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "nginx:9"
    assert ("ports" in container) is (type_ != "merge")  # a merge patch replaces lists


def test_labels_annotations_and_selectors(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=POD)
    kubectl("label", "pod", "web", "tier=front")
    kubectl("annotate", "pod", "web", "note=hello")
    assert "tier=front" in kubectl("get", "pods", "--show-labels")
    assert kubectl("get", "pods", "-l", "tier in (front,back),app=web", "-o", "name") == "pod/web\n"
    assert kubectl("get", "pods", "-l", "tier!=front", "-o", "name") == ""
    assert kubectl("get", "pods", "--field-selector=metadata.name=web", "-o", "name") == "pod/web\n"
    kubectl("label", "pod", "web", "tier-")
    assert "tier" not in kubectl.json("get", "pod", "web")["metadata"]["labels"]
    assert kubectl.json("get", "pod", "web")["metadata"]["annotations"]["note"] == "hello"


def test_commands_that_change_a_workload_change_its_object(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1")
    kubectl("scale", "deploy/web", "--replicas=3")
    kubectl("set", "image", "deploy/web", "nginx=nginx:2")
    kubectl("rollout", "pause", "deploy/web")
    deployment = kubectl.json("get", "deploy", "web")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["paused"] is True
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert deployment["metadata"]["generation"] == 4
    assert words(kubectl("get", "deploy", "web", "--subresource=scale"))[1][:2] == ["web", "3"]
    kubectl("rollout", "resume", "deploy/web")
    assert "paused" not in kubectl.json("get", "deploy", "web")["spec"]
    refused = kubectl.refused("scale", "deploy/web", "--replicas=5", "--current-replicas=1")
    assert "Expected replicas to be 1, was 3" in refused


def test_a_rollouts_history_is_read_from_replica_sets(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=0")
    deployment = kubectl.json("get", "deploy", "web")
    template = deployment["spec"]["template"]
    template["metadata"]["labels"]["pod-template-hash"] = "abc"
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": "web-abc",
            "labels": template["metadata"]["labels"],
            "annotations": {"deployment.kubernetes.io/revision": "1", "kubernetes.io/change-cause": "the first"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "web",
                    "uid": deployment["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": template["metadata"]["labels"]},
            "template": template,
        },
    }
    kubectl("create", "-f", "-", given=json.dumps(replica_set))
    assert words(kubectl("rollout", "history", "deploy/web"))[1:3] == [
        ["REVISION", "CHANGE-CAUSE"],
        ["1", "the", "first"],
    ]
    assert "Image:\tnginx:1" in kubectl("rollout", "history", "deploy/web", "--revision=1")


def test_waiting_and_watching_see_what_happens(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", given=POD)
    command = kubectl.command("get", "pods", "--watch", "--no-headers", "--output-watch-events")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[:2] == ["ADDED", "web"]
        waiting = subprocess.Popen(kubectl.command("wait", "pod/web", "--for=delete", "--timeout=20s"))
        kubectl("label", "pod", "web", "seen=yes")
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "web"]
        status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
        kubectl("patch", "pod", "web", "--subresource=status", "-p", status)
        assert kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=10s") == "pod/web condition met\n"
        kubectl("delete", "pod", "web", "--grace-period=0", "--force")
        assert waiting.wait(timeout=20) == 0
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "web"]  # ready
        assert watching.stdout.readline().split()[:2] == ["MODIFIED", "web"]  # no grace left
        assert watching.stdout.readline().split()[:2] == ["DELETED", "web"]
        watching.kill()


def test_raw_paths_are_open(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/readyz") == "ok"
    assert json.loads(kubectl("get", "--raw", "/openapi/v3"))["paths"]
    assert "the server could not find the requested resource" in kubectl.refused("get", "--raw", "/nothing")
