"""The files of deploy/: each is read by the program that it is for, and what it describes works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.process.version import this_version
from tests.e2e.forks import Forks
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import Manager, ending, free_port, hollow_nodes, run_kcm, spawn, until
from tests.e2e.real_server import assets_or_skip, real_server
from tests.support.certificates import Authority

DEPLOY = Path(__file__).parents[2] / "deploy"
PODS_AND_RULES = ("kind", "metadata", "roleRef", "subjects", "spec")  # fields that are compared
SCRAPER = "scraper"


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


def run(*command: str | Path, **environ: str) -> str:
    """Run a command and return its output. Fails the test if the command fails."""
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=120, check=False, env=os.environ | environ
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def documents(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def kustomized() -> list[dict[str, Any]]:
    return documents(run("kubectl", "kustomize", DEPLOY / "kustomize"))


@dataclass(frozen=True)
class Cluster:
    """API server, and the private key with which tokens of its service accounts are signed."""

    api: Api
    account_key: Path


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "embedded":
        key = Authority(tmp_path, "unused").issue("sa", use_rsa=True).key
        server = launch(ServerSettings(directory=tmp_path / "kcm", in_memory=True, account_key_file=str(key)))
        try:
            yield Cluster(Api(server.kubeconfig), key)
        finally:
            server.stop()
        return
    directory = tmp_path / "real"
    directory.mkdir()
    with real_server(directory, assets_or_skip()) as real:
        yield Cluster(Api(real.kubeconfig), directory / "sa.key")


def as_account(api: Api, namespace: str, name: str, file: Path) -> Path:
    """Write a kubeconfig with a token of a service account."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    config = yaml.safe_load(api.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": api.request("POST", path, review)["status"]["token"]}
    file.write_text(yaml.safe_dump(config))
    return file


def deployed(cluster: Cluster, directory: Path, *flags: str) -> Manager:
    """Apply the kustomization, and run kcm as its Deployment does: with its service account and its arguments."""
    kubectl = Kubectl(cluster.api, "kube-system")
    kubectl("apply", "--kustomize", str(DEPLOY / "kustomize"))
    pki = directory / "pki"
    pki.mkdir()
    pair = Authority(directory, "root").issue("signer")
    for source, name in ((cluster.account_key, "sa.key"), (pair.key, "ca.key"), (pair.certificate, "ca.crt")):
        shutil.copy(source, pki / name)
    container = kubectl.get("apps/v1/deployments", "kcm")["spec"]["template"]["spec"]["containers"][0]
    arguments = [
        argument.replace("=/pki", f"={pki}").replace("=/var/run/secrets/kubernetes.io/serviceaccount", f"={pki}")
        for argument in container["args"]
    ]
    kubeconfig = as_account(cluster.api, "kube-system", "kcm", directory / "kcm.kubeconfig")
    delegation = (f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}")
    return run_kcm(directory / "kcm.log", *arguments, f"--kubeconfig={kubeconfig}", *delegation, *flags)


def until_leading(manager: Manager) -> None:
    def leads() -> bool:
        return manager.metric("leader_election_master_status") == 1 and manager.healthy()

    until(
        leads, "it leads, and all checks pass", why=lambda: manager.get("/healthz?verbose")[1] + manager.program.text()
    )


def test_kustomization_grants_all_rights_that_kcm_needs(cluster: Cluster, tmp_path: Path) -> None:
    manager = deployed(cluster, tmp_path)
    with ending(manager.program):
        until(
            manager.healthy, "all checks pass", why=lambda: manager.get("/healthz?verbose")[1] + manager.program.text()
        )
        template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}
        kubectl = Kubectl(cluster.api, "default")
        kubectl.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec})
        until(lambda: len(kubectl.items("pods", "app=a")) == 2, "pods are created", why=manager.program.text)
        assert manager.metric("rest_client_requests_total", code="403") == 0, manager.program.text()
        assert "orbidden" not in manager.program.text()


@needs("helm")
def test_helm_chart_describes_the_objects_of_the_kustomization() -> None:
    flags = ("--namespace=kube-system", "--kube-version=1.36.2")
    charted = documents(run("helm", "template", "kcm", DEPLOY / "helm" / "kcm", *flags))

    def compared(found: list[dict[str, Any]]) -> dict[str, Any]:
        by_name = {}
        for document in found:
            document["metadata"].pop("namespace", None)
            if document["kind"] == "Deployment":
                (container,) = document["spec"]["template"]["spec"]["containers"]
                container.setdefault("imagePullPolicy", "IfNotPresent")
                timing = ("--leader-elect-lease", "--leader-elect-renew", "--leader-elect-retry")  # have their defaults
                container["args"] = [flag for flag in container["args"] if not flag.startswith(timing)]
            by_name[document["kind"], document["metadata"]["name"]] = {
                field: document[field] for field in PODS_AND_RULES if field in document
            }
        return by_name

    assert compared(charted) == compared(kustomized())


@needs("helm")
def test_helm_chart_is_installed_with_monitoring(cluster: Cluster, tmp_path: Path) -> None:
    for plural, kind in (("servicemonitors", "ServiceMonitor"), ("prometheusrules", "PrometheusRule")):
        cluster.api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", any_kind(plural, kind))
    homes = {f"HELM_{home}_HOME": str(tmp_path / home) for home in ("CACHE", "CONFIG", "DATA")}
    settings = "monitoring.serviceMonitor=true,monitoring.prometheusRule=true,monitoring.dashboard=true"
    run(
        *("helm", "install", "kcm", DEPLOY / "helm" / "kcm", f"--kubeconfig={cluster.api.kubeconfig}"),
        *("--namespace=kube-system", f"--set={settings},monitoring.labels.release=kps"),
        **homes,
    )
    kubectl = Kubectl(cluster.api, "kube-system")
    assert kubectl.get("apps/v1/deployments", "kcm")["spec"]["replicas"] == 3
    for plural in ("servicemonitors", "prometheusrules"):
        (found,) = kubectl.items(f"monitoring.coreos.com/v1/{plural}")
        assert found["metadata"]["labels"]["release"] == "kps"
    dashboard = json.loads(kubectl.get("configmaps", "kcm-dashboard")["data"]["dashboard.json"])
    assert dashboard == json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())


def any_kind(plural: str, kind: str) -> dict[str, Any]:
    """Return the definition of a kind of the Prometheus Operator, without its schema."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@needs("systemd-analyze")
def test_systemd_unit_is_valid_and_confined(tmp_path: Path) -> None:
    text = (DEPLOY / "systemd" / "kcm.service").read_text()
    # The unit's program and user exist only where it is installed.
    unit = tmp_path / "kcm.service"
    unit.write_text(text.replace("/opt/kcm/bin/run-kcm", "/bin/true").replace("=kcm\n", "=nobody\n"))
    run("systemd-analyze", "verify", "--man=no", unit)
    run("systemd-analyze", "security", "--offline=true", "--threshold=20", unit)


# Of kube-controller-manager in Talos's static pod, and those that RKE2 adds to the flags of k3s.
TALOS = (
    "--use-service-account-credentials --allocate-node-cidrs=true --bind-address=127.0.0.1 "
    "--cluster-cidr=10.244.0.0/16 --service-cluster-ip-range=10.96.0.0/12 "
    "--cluster-signing-cert-file=ca.crt --cluster-signing-key-file=ca.key --root-ca-file=ca.crt "
    "--controllers=* --configure-cloud-routes=false --leader-elect=true --profiling=false "
    "--kubeconfig=kubeconfig --authentication-kubeconfig=kubeconfig --authorization-kubeconfig=kubeconfig "
    "--service-account-private-key-file=service-account.key --terminated-pod-gc-threshold=100 "
    "--tls-min-version=VersionTLS13 --use-service-account-credentials=true --node-cidr-mask-size-ipv4=24"
)
RKE2 = (
    "--permit-port-sharing=true --flex-volume-plugin-dir=/var/lib/kubelet/volumeplugins "
    "--terminated-pod-gc-threshold=1000"
)


@pytest.mark.parametrize("distribution", ["kubeadm", "k3s", "RKE2", "Talos"])
def test_flags_of_distributions_are_accepted(forks: Forks, distribution: str) -> None:
    def of_unit(name: str) -> list[str]:
        script = f"set -f; . {DEPLOY / 'systemd' / name}; echo $KCM_FLAGS"
        return run("sh", "-c", script).split()

    if distribution == "Talos":
        flags = TALOS.split()
    else:
        flags = of_unit("kcm.env" if distribution == "kubeadm" else "k3s.env")
        flags += RKE2.split() if distribution == "RKE2" else []
    assert len(flags) > 10
    done = forks.run(*flags, "--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "Kubernetes")


def test_kubeadm_patch_changes_the_image_alone(tmp_path: Path) -> None:
    kubeadm = assets_or_skip() / "kubeadm"
    if not kubeadm.exists():
        pytest.skip("KUBEBUILDER_ASSETS has no kubeadm")
    found = []
    for name, flags in (("before", ()), ("after", ("--patches", str(DEPLOY / "kubeadm")))):
        directory = tmp_path / name
        directory.mkdir()
        phase = ("init", "phase", "control-plane", "controller-manager", "--dry-run", "--kubernetes-version=v1.36.2")
        run(kubeadm, *phase, f"--cert-dir={tmp_path / 'pki'}", *flags, KUBEADM_INIT_DRYRUN_DIR=str(directory))
        (manifest,) = directory.rglob("kube-controller-manager.yaml")
        found.append(yaml.safe_load(manifest.read_text()))
    before, after = found
    (container,) = after["spec"]["containers"]
    assert container.pop("image") == "kcm:0.2.0"
    assert container.pop("securityContext") == {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    before["spec"]["containers"][0].pop("image")
    assert after == before


def test_image_contains_all_packages() -> None:
    copied = set()
    for line in (DEPLOY / "Containerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied.update(line.split()[1:-1])
    assert all((DEPLOY.parent / source).exists() for source in copied)
    assert {"kcm", *(link.name for link in (DEPLOY.parent / "kcm").iterdir() if link.is_symlink())} <= copied


@needs("promtool")
def test_alerts_fire_when_they_should(tmp_path: Path) -> None:
    rule = yaml.safe_load((DEPLOY / "monitoring" / "prometheusrule.yaml").read_text())
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    shutil.copy(DEPLOY / "monitoring" / "alerts_test.yaml", tmp_path)
    run("promtool", "check", "rules", tmp_path / "rules.yaml")
    run("promtool", "test", "rules", tmp_path / "alerts_test.yaml")


def own_dashboard() -> dict[str, list[str]]:
    """Return the expressions of the project's dashboard by the title of their panel."""
    dashboard = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
    return {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in dashboard["panels"]}


@needs("prometheus")
@pytest.mark.slow
@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
def test_dashboards_have_data_and_alerts_of_the_mixin_find_an_ended_manager(cluster: Cluster, tmp_path: Path) -> None:
    mixin = yaml.safe_load((Path(__file__).parent / "kubernetes_mixin.yml").read_text())
    alerts = mixin["alerts"]
    panels = own_dashboard()
    for title, expressions in mixin["panels"].items():  # here each expression must have data
        for number, expression in enumerate(expressions):
            if not any(part in expression for part in mixin["empty"]):
                panels[f"{title} of kubernetes-mixin, {number}"] = [expression]
    port, listen = free_port(), free_port()
    manager = deployed(cluster, tmp_path, "--bind-address=127.0.0.1", f"--secure-port={port}")
    with ending(manager.program), hollow_nodes(cluster.api.kubeconfig, tmp_path / "hollow.log", nodes=3):
        config = tmp_path / "prometheus.yml"
        config.write_text(yaml.safe_dump(scraping(cluster.api, port, tmp_path)))
        storage = f"--storage.tsdb.path={tmp_path / 'tsdb'}"
        command = ["prometheus", f"--config.file={config}", storage, f"--web.listen-address=127.0.0.1:{listen}"]
        with ending(spawn(command, tmp_path / "prometheus.log")) as prometheus:
            kubectl = Kubectl(cluster.api, "default")
            until_leading(manager)
            kubectl("create", "deployment", "a", "--image=i", "--replicas=3")

            def empty_panels() -> list[str]:
                return [
                    title
                    for title, expressions in panels.items()
                    if not any(has_data(listen, expression) for expression in expressions)
                ]

            until(
                lambda: not empty_panels(), "all panels have data", why=lambda: f"{empty_panels()}{prometheus.text()}"
            )
            assert [name for name, expression in alerts.items() if has_data(listen, expression)] == []
            minor = ".".join(this_version().kubernetes.split(".")[:2])
            # KubeVersionMismatch compares this with the other components of the release.
            assert has_data(listen, f'kubernetes_build_info{{git_version=~"v{minor}[.].*"}}')
            manager.program.process.terminate()
            unreachable = alerts["KubeControllerManagerInstanceUnreachable"]
            until(lambda: has_data(listen, unreachable), "its targets are down", why=prometheus.text)


def scraping(api: Api, port: int, directory: Path) -> dict[str, Any]:
    """Return the configuration of a Prometheus that scrapes kcm as kube-prometheus does, but each second."""
    api.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": SCRAPER}})
    role = {"rules": [{"nonResourceURLs": ["/metrics", "/metrics/slis"], "verbs": ["get"]}]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": SCRAPER}, **role})
    binding = {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SCRAPER},
        "subjects": [{"kind": "ServiceAccount", "name": SCRAPER, "namespace": "default"}],
    }
    api.request("POST", f"{rbac}/clusterrolebindings", {"metadata": {"name": SCRAPER}, **binding})
    config = yaml.safe_load(as_account(api, "default", SCRAPER, directory / "scraper.kubeconfig").read_text())
    (directory / "token").write_text(config["users"][0]["user"]["token"])
    monitor = yaml.safe_load((DEPLOY / "monitoring" / "servicemonitor.yaml").read_text())
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [
            {
                "job_name": f"endpoint-{number}",
                "metrics_path": endpoint.get("path", "/metrics"),
                "scheme": endpoint["scheme"],
                "authorization": {"credentials_file": str(directory / "token")},
                "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
                "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"job": "kube-controller-manager"}}],
            }
            for number, endpoint in enumerate(monitor["spec"]["endpoints"])
        ],
    }


def has_data(port: int, expression: str) -> bool:
    for variable, value in (
        ("$job", "kube-controller-manager"),
        ("$cluster", ""),
        ("$instance", ".+"),
        ("$__rate_interval", "1m"),
    ):
        expression = expression.replace(variable, value)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={quote(expression)}") as response:
            found = json.load(response)["data"]["result"]
    except OSError:
        return False
    return any(sample["value"][1] != "NaN" for sample in found)
