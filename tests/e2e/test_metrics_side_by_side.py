"""Metrics of kube-controller-manager and of kcm, compared after the same work: /metrics and /metrics/slis.

Compared are the names of families, their type, label names, buckets and help text, the label values of their series,
and the values of some families. `metric_differences.yml` lists the differences with their reasons: a difference that is
not listed, or a listed one that no longer exists, fails the test.
"""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from kcm.protocols.objects import Object
from tests.e2e.kubectl import Api
from tests.e2e.programs import Program, ending, free_port, hollow_nodes, run_kcm, spawn, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_server
from tests.support.certificates import Authority, Pair, client_context

pytestmark = [pytest.mark.e2e, pytest.mark.cluster, pytest.mark.timeout(300)]
DIFFERENCES = Path(__file__).parent / "metric_differences.yml"
GATES = "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true"
SERVED = "--runtime-config=certificates.k8s.io/v1beta1=true"
SERVICE = "kubernetes.io/service-name"
REAL, OURS = "kube-controller-manager", "kcm"
# Families whose values are equal after the same work.
EQUAL_VALUES = (
    "disabled_metrics_total",
    "kubernetes_feature_enabled",
    "kubernetes_healthcheck",
    "leader_election_master_status",
    "node_collector_unhealthy_nodes_in_zone",
    "node_collector_zone_health",
    "node_collector_zone_size",
    "node_ipam_controller_cirdset_max_cidrs",
    "running_managed_controllers",
)
_LABEL = re.compile(r'(\w+)="((?:[^"\\\\]|\\\\.)*)"')


class FamilyOnPage(NamedTuple):
    """Family of a page, without the values of its series.

    help: text, with the stability level in brackets before it.
    labels: names, without "le" and "quantile".
    buckets: upper bounds as in the label "le"; empty if it is not a histogram.
    series: each as its labels, such as 'code="200",method="GET"'.
    """

    type: str
    help: str
    labels: frozenset[str]
    buckets: frozenset[str]
    series: frozenset[str]


def page(port: int, path: str, pair: Pair) -> str:
    context = client_context(pair=pair)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(f"https://127.0.0.1:{port}{path}", timeout=20.0, context=context) as response:
        return str(response.read().decode())


def families(text: str) -> dict[str, FamilyOnPage]:
    """Parse the families that have series from a page in Prometheus' text format.

    In label values the API server's address becomes "SERVER", and NUL, which separates region and zone, is removed.
    """
    types, helps = (dict(re.findall(rf"^# {what} (\S+) (.*)$", text, re.MULTILINE)) for what in ("TYPE", "HELP"))
    all_labels: dict[str, list[dict[str, str]]] = {}
    text = re.sub(r"127\.0\.0\.1:\d+", "SERVER", text).replace("\0:", "")
    for name, inside in re.findall(r"^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        family = name if name in types else re.sub(r"_(bucket|sum|count)$", "", name)
        all_labels.setdefault(family, []).append(dict(_LABEL.findall(inside)))
    return {
        name: FamilyOnPage(
            type=types[name],
            help=helps.get(name, ""),
            labels=frozenset(label for labels in found for label in labels if label not in ("le", "quantile")),
            buckets=frozenset(labels["le"] for labels in found if "le" in labels),
            series=frozenset(map(_series, found)),
        )
        for name, found in all_labels.items()
    }


def values(text: str) -> dict[str, float]:
    """Parse the values of the series of EQUAL_VALUES from a page, by series as family{labels}."""
    lines = re.findall(r"^([a-z_]+)(?:\{(.*)\})? (\S+)$", text.replace("\0:", ""), re.MULTILINE)
    return {
        f"{name}{{{_series(dict(_LABEL.findall(inside)))}}}": float(value)
        for name, inside, value in lines
        if name in EQUAL_VALUES
    }


def _series(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{labels[name]}"' for name in sorted(labels.keys() - {"le", "quantile"}))


def differences(real: Mapping[str, FamilyOnPage], ours: Mapping[str, FamilyOnPage]) -> dict[str, list[str]]:
    """Return the names of different families, and different series as family{labels}, by kind of difference."""
    both = sorted(real.keys() & ours.keys())
    return {
        "only kube-controller-manager": sorted(real.keys() - ours.keys()),
        "only kcm": sorted(ours.keys() - real.keys()),
        "another type or other labels": [
            name for name in both if (real[name].type, real[name].labels) != (ours[name].type, ours[name].labels)
        ],
        "another help text": [name for name in both if real[name].help != ours[name].help],
        "other buckets": [name for name in both if real[name].buckets != ours[name].buckets],
        "series of kube-controller-manager only": [
            f"{name}{{{series}}}" for name in both for series in sorted(real[name].series - ours[name].series)
        ],
        "series of kcm only": [
            f"{name}{{{series}}}" for name in both for series in sorted(ours[name].series - real[name].series)
        ],
    }


def flags(server: RealServer, port: int) -> tuple[str, ...]:
    keys, kubeconfig = server.directory, server.kubeconfig
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        GATES,
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--allocate-node-cidrs",
        "--cluster-cidr=10.244.0.0/16",
        f"--root-ca-file={keys / 'apiserver.crt'}",
        f"--service-account-private-key-file={keys / 'sa.key'}",
        f"--cluster-signing-cert-file={keys / 'apiserver.crt'}",
        f"--cluster-signing-key-file={keys / 'apiserver.key'}",
    )


@contextmanager
def manager(who: str, server: RealServer, port: int) -> Iterator[Program]:
    log = server.directory / f"{who}.log"
    if who == OURS:
        program = run_kcm(log, *flags(server, port)).program
    else:
        program = spawn([str(server.binaries / "kube-controller-manager"), *flags(server, port)], log)
    with ending(program):
        yield program


def work(api: Api, name: str) -> None:
    """Let workloads come and go, with a Service that selects their pods, and one with our own Endpoints.

    A HorizontalPodAutoscaler finds no metrics, and a claim is bound to a volume.
    """
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
    sets = "/apis/apps/v1/namespaces/default"
    others = {"selector": {"matchLabels": {"set": name}}, "template": {**pod, "metadata": {"labels": {"set": name}}}}
    api.request("POST", f"{sets}/daemonsets", {"metadata": {"name": name}, "spec": others})
    stateful = {"metadata": {"name": name}, "spec": {**others, "replicas": 1, "serviceName": name}}
    api.request("POST", f"{sets}/statefulsets", stateful)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    scaler = {"metadata": {"name": name}, "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 3}}
    scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    api.request("POST", scalers, scaler)
    bind_claim(api, name)
    scaled = f"{scalers}/{name}"
    until(lambda: api.get(scaled)["status"].get("conditions"), "the HorizontalPodAutoscaler is evaluated")
    api.request("DELETE", scaled)
    until(lambda: api.get(f"{sets}/daemonsets/{name}")["status"].get("numberReady"), "the DaemonSet has pods")
    until(lambda: api.get(f"{sets}/statefulsets/{name}")["status"].get("readyReplicas"), "the StatefulSet has a pod")
    for kind in ("daemonsets", "statefulsets"):
        api.request("DELETE", f"{sets}/{kind}/{name}?propagationPolicy=Background")
    job = {"template": {**pod, "spec": {**pod["spec"], "restartPolicy": "Never"}}}
    api.request("POST", jobs, {"metadata": {"name": name}, "spec": job})
    until(lambda: api.get(f"{jobs}/{name}")["status"].get("active"), "the Job has a pod")
    until(
        lambda: api.get(f"{deployments}/{name}")["status"].get("availableReplicas") == 2, "the Deployment is complete"
    )
    api.request("DELETE", f"{deployments}/{name}")
    api.request("DELETE", f"{jobs}/{name}?propagationPolicy=Background")
    until(
        lambda: not api.get(f"/api/v1/namespaces/default/pods?labelSelector=app={name}")["items"], "its pods are gone"
    )


def bind_claim(api: Api, name: str) -> None:
    """Create a volume and a claim for it, and wait until they are bound."""
    shared: Object = {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}
    volume = {**shared, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp"}}
    api.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": volume})
    claim = {**shared, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    api.request("POST", claims, {"metadata": {"name": name}, "spec": claim})
    until(lambda: api.get(f"{claims}/{name}")["status"].get("phase") == "Bound", "the claim is bound")


def service(name: str, labels: Object) -> Object:
    return {"metadata": {"name": name}, "spec": {"selector": labels, "ports": [{"port": 80}]}}


def test_metrics_are_those_of_the_real_manager(tmp_path: Path) -> None:
    assets, clients = assets_or_skip(), Authority(tmp_path, "clients")
    root = clients.issue("root", groups=("system:masters",))
    found: dict[str, dict[str, FamilyOnPage]] = {}
    indicators: dict[str, set[str]] = {}
    numbers: dict[str, dict[str, float]] = {}
    with (
        real_server(
            tmp_path, assets, f"--client-ca-file={clients.file}", GATES, SERVED, disabled=("TaintNodesByCondition",)
        ) as server,
        hollow_nodes(server.kubeconfig, tmp_path / "hollow.log"),
    ):
        for who in (REAL, OURS):
            port = free_port()
            with manager(who, server, port) as program:
                leads = 'leader_election_master_status{name="kube-controller-manager"} 1'
                until(lambda: leads in _page_or_nothing(port, root), f"{who} leads", why=program.text)  # noqa: B023
                work(Api(server.kubeconfig), "web" if who == OURS else "real")
                zones = "node_collector_zone_size{"
                until(lambda: zones in _page_or_nothing(port, root), "the zones are known", why=program.text)  # noqa: B023
                with pytest.raises(urllib.error.HTTPError) as refused:  # the API server denies it, which is counted
                    page(port, "/metrics", clients.issue("jane"))
                refused.value.close()
                page(port, "/healthz", root)  # runs the checks, which /metrics/slis counts
                slis, text = page(port, "/metrics/slis", root), page(port, "/metrics", root)
                indicators[who] = set(families(slis))
                found[who] = {**families(slis), **families(text)}
                numbers[who] = {**values(slis), **values(text)}
            api = Api(server.kubeconfig)
            lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
            api.request("DELETE", lease)  # so that the next one need not wait until it expires
    both = numbers[OURS].keys() & numbers[REAL].keys()
    assert {series.partition("{")[0] for series in both} == set(EQUAL_VALUES)
    assert {series: numbers[OURS][series] for series in both} == {series: numbers[REAL][series] for series in both}
    assert indicators[OURS] == indicators[REAL], indicators
    unexpected, outdated = judge(differences(found[REAL], found[OURS]), yaml.safe_load(DIFFERENCES.read_text()))
    explained = {
        name: (found[REAL][name], found[OURS][name])
        for names in (unexpected.get("another help text", ()), unexpected.get("other buckets", ()))
        for name in names
    }
    assert unexpected == {}, explained
    assert outdated == []


def judge(
    found: Mapping[str, Iterable[str]], known: dict[str, dict[str, list[str]]]
) -> tuple[dict[str, list[str]], list[str]]:
    """Return the differences that are not listed, by kind, and the patterns of the list that match none."""
    sometimes = _patterns(known.pop("sometimes on one side only"))
    assert known.keys() == found.keys()
    unexpected: dict[str, list[str]] = {}
    outdated = []
    for kind, names in found.items():
        patterns = _patterns(known[kind])
        others = [name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns + sometimes)]
        if others:
            unexpected[kind] = others
        outdated += [
            f"{kind}: {pattern}" for pattern in patterns if not any(re.fullmatch(pattern, name) for name in names)
        ]
    return unexpected, outdated


def _patterns(by_reason: dict[str, list[str]]) -> list[str]:
    return [pattern for patterns in by_reason.values() for pattern in patterns]


def _page_or_nothing(port: int, pair: Pair) -> str:
    try:
        return page(port, "/metrics", pair)
    except OSError:
        return ""
