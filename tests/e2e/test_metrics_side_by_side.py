"""Metrics of kube-controller-manager and of kcm, compared by name, type and labels after the same work.

`metric_differences.yml` lists the differences with their reasons: a family that is new on either side, or no longer
different, fails the test.
"""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kcm.protocols.objects import Object
from tests.e2e.kubectl import Api
from tests.e2e.programs import Program, ending, free_port, hollow_nodes, run_kcm, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server
from tests.support.certificates import Authority, Pair, client_context

pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.timeout(300)]
DIFFERENCES = Path(__file__).parent / "metric_differences.yml"
SERVICE = "kubernetes.io/service-name"
Shape = tuple[str, tuple[str, ...]]  # type, and names of labels


def page(port: int, path: str, pair: Pair) -> str:
    context = client_context(pair=pair)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=20.0, context=context) as response:
        return str(response.read().decode())


def shapes(text: str) -> dict[str, Shape]:
    """Parse a page in Prometheus' text format: type and label names of each family that has a series."""
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    labels: dict[str, set[str]] = {}
    for name, inside in re.findall(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        family = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        labels.setdefault(family, set()).update(re.findall(r'(\w+)="', inside))
    return {name: (types[name], tuple(sorted(found - {"le", "quantile"}))) for name, found in labels.items()}


def flags(server: RealServer, port: int) -> tuple[str, ...]:
    keys, kubeconfig = server.directory, server.kubeconfig
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--controllers=*,bootstrapsigner,tokencleaner",
        f"--root-ca-file={keys / 'apiserver.crt'}",
        f"--service-account-private-key-file={keys / 'sa.key'}",
        f"--cluster-signing-cert-file={keys / 'apiserver.crt'}",
        f"--cluster-signing-key-file={keys / 'apiserver.key'}",
    )


@contextmanager
def manager(who: str, server: RealServer, port: int) -> Iterator[Program]:
    log = server.directory / f"{who}.log"
    if who == "kcm":
        program = run_kcm(log, *flags(server, port)).program
    else:
        program = spawn([str(server.binaries / "kube-controller-manager"), *flags(server, port)], log)
    with ending(program):
        yield program


def work(api: Api, name: str) -> None:
    """Let a Deployment and a Job come and go, with a Service that selects the pods, and one with our own Endpoints."""
    labels = {"app": name}
    pod: Object = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    deployments, jobs = "/apis/apps/v1/namespaces/default/deployments", "/apis/batch/v1/namespaces/default/jobs"
    api.request("POST", deployments, {"metadata": {"name": name}, "spec": spec})
    api.request("POST", "/api/v1/namespaces/default/services", service(name, labels))
    own: Object = {"metadata": {"name": f"{name}-own"}, "spec": {"ports": [{"port": 80}]}}
    api.request("POST", "/api/v1/namespaces/default/services", own)
    subsets = [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]
    endpoints = {"metadata": {"name": f"{name}-own"}, "subsets": subsets}
    api.request("POST", "/api/v1/namespaces/default/endpoints", endpoints)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector={SERVICE}={name}-own"
    until(lambda: api.get(slices)["items"], "the Endpoints are mirrored")
    job = {"template": {**pod, "spec": {**pod["spec"], "restartPolicy": "Never"}}}
    api.request("POST", jobs, {"metadata": {"name": name}, "spec": job})
    until(
        lambda: api.get(f"{deployments}/{name}")["status"].get("availableReplicas") == 2, "the Deployment is complete"
    )
    api.request("DELETE", f"{deployments}/{name}")
    api.request("DELETE", f"{jobs}/{name}?propagationPolicy=Background")
    until(
        lambda: not api.get(f"/api/v1/namespaces/default/pods?labelSelector=app={name}")["items"], "its pods are gone"
    )


def service(name: str, labels: Object) -> Object:
    return {"metadata": {"name": name}, "spec": {"selector": labels, "ports": [{"port": 80}]}}


def test_metrics_are_those_of_the_real_manager(tmp_path: Path) -> None:
    assets, clients = assets_or_skip(), Authority(tmp_path, "clients")
    root = clients.issue("root", groups=("system:masters",))
    found: dict[str, dict[str, Shape]] = {}
    with (
        real_server(
            tmp_path, assets, f"--client-ca-file={clients.file}", disabled=("TaintNodesByCondition",)
        ) as server,
        hollow_nodes(server.kubeconfig, tmp_path / "hollow.log"),
    ):
        for who in ("kube-controller-manager", "kcm"):
            port = free_port()
            with manager(who, server, port) as program:
                leads = 'leader_election_master_status{name="kube-controller-manager"} 1'
                until(lambda: leads in _page_or_nothing(port, root), f"{who} leads", why=program.text)  # noqa: B023
                work(Api(server.kubeconfig), "web" if who == "kcm" else "real")
                zones = "node_collector_zone_size{"
                until(lambda: zones in _page_or_nothing(port, root), "the zones are known", why=program.text)  # noqa: B023
                with pytest.raises(urllib.error.HTTPError):  # the API server denies it, which is counted
                    page(port, "/metrics", clients.issue("jane"))
                found[who] = shapes(page(port, "/metrics", root))
            api = Api(server.kubeconfig)
            lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
            api.request("DELETE", lease)  # so that the next one need not wait until it expires
    known = yaml.safe_load(DIFFERENCES.read_text())
    sometimes = _patterns(known.pop("sometimes on one side only"))
    real, ours = (
        {name: shape for name, shape in found[who].items() if name not in sometimes}
        for who in ("kube-controller-manager", "kcm")
    )
    differences = {
        "only kube-controller-manager": sorted(real.keys() - ours.keys()),
        "only kcm": sorted(ours.keys() - real.keys()),
        "another type or other labels": sorted(name for name in real.keys() & ours.keys() if real[name] != ours[name]),
    }
    unexpected = {
        side: [name for name in names if not any(re.fullmatch(pattern, name) for pattern in _patterns(known[side]))]
        for side, names in differences.items()
    }
    assert unexpected == {side: [] for side in differences}, {
        name: (real[name], ours[name]) for name in differences["another type or other labels"]
    }
    outdated = [
        pattern
        for side, names in differences.items()
        for pattern in _patterns(known[side])
        if not any(re.fullmatch(pattern, name) for name in names)
    ]
    assert outdated == []


def _patterns(by_reason: dict[str, list[str]]) -> list[str]:
    return [pattern for patterns in by_reason.values() for pattern in patterns]


def _page_or_nothing(port: int, pair: Pair) -> str:
    try:
        return page(port, "/metrics", pair)
    except OSError:
        return ""
