"""One admission configuration on the embedded API server and on a real kube-apiserver: the same requests must have the
same responses and warnings.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.manifests import pod
from tests.e2e.real_server import assets_or_skip, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(200)]

CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: persistentvolumeclaims
      matchContains: [gold.storageclass.storage.k8s.io/requests.storage]
    - resource: pods
      matchScopes:
      - {scopeName: PriorityClass, operator: In, values: [high]}
    - apiGroup: apps
      resource: deployments
      matchContains: [count/deployments.apps]
- name: PodSecurity
  path: security.yaml
"""
SECURITY = """
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline, warn: restricted, warn-version: v1.30}
exemptions: {usernames: [free], namespaces: [exempt], runtimeClasses: [sandbox]}
"""
CORE = "/api/v1"
CONTAINERS = [{"name": "c", "image": "nginx"}]
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS, "hostNetwork": True}}
LEVEL = "pod-security.kubernetes.io/"


def claim_of_class(name: str, storage: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {**CLAIM, "storageClassName": storage}}


def selecting_deployment(name: str) -> dict[str, Any]:
    selector = {"matchLabels": {"a": "b"}}
    return {"metadata": {"name": name}, "spec": {"selector": selector, "template": TEMPLATE}}


def labelled_namespace(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {f"{LEVEL}{mode}": level for mode, level in labels.items()}}}


STEPS: list[tuple[str, str, Any, str]] = [
    ("POST", f"{CORE}/namespaces", labelled_namespace("one"), ""),
    ("POST", f"{CORE}/namespaces", labelled_namespace("exempt", enforce="restricted"), ""),
    ("PATCH", f"{CORE}/namespaces/exempt", labelled_namespace("exempt", audit="baseline"), ""),
    ("POST", f"{CORE}/namespaces", labelled_namespace("open", enforce="privileged", warn="privileged"), ""),
    ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 10}, ""),
    ("POST", "/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "sandbox"}, "handler": "h"}, ""),
    ("POST", f"{CORE}/namespaces/one/pods", pod("plain"), ""),
    ("POST", f"{CORE}/namespaces/one/pods", pod("host", hostNetwork=True), ""),
    ("POST", f"{CORE}/namespaces/one/pods", pod("host", hostNetwork=True), "free"),
    ("POST", f"{CORE}/namespaces/one/pods", pod("boxed", hostNetwork=True, runtimeClassName="sandbox"), ""),
    ("POST", f"{CORE}/namespaces/open/pods", pod("host", hostNetwork=True), ""),
    ("POST", f"{CORE}/namespaces/exempt/pods", pod("host", hostNetwork=True), ""),
    ("PATCH", f"{CORE}/namespaces/one", labelled_namespace("one", enforce="restricted"), ""),
    ("PATCH", f"{CORE}/namespaces/one", labelled_namespace("one", enforce="nothing"), ""),
    ("PATCH", f"{CORE}/namespaces/one", {"metadata": {"labels": {f"{LEVEL}enforce": "privileged"}}}, ""),
    ("POST", f"{CORE}/namespaces/one/persistentvolumeclaims", claim_of_class("a", "gold"), ""),
    ("POST", f"{CORE}/namespaces/one/persistentvolumeclaims", claim_of_class("b", "silver"), ""),
    ("POST", f"{CORE}/namespaces/one/pods", pod("high", priorityClassName="high"), ""),
    ("POST", "/apis/apps/v1/namespaces/one/deployments", selecting_deployment("d"), ""),
]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, Api]]:
    """Return the embedded server and the real one."""
    assets, place = assets_or_skip(), tmp_path_factory.mktemp("configured")
    configuration = place / "admission.yaml"
    configuration.write_text(CONFIGURATION)
    (place / "security.yaml").write_text(SECURITY)
    with ExitStack() as stack:
        flag = f"--admission-control-config-file={configuration}"
        real = stack.enter_context(real_server(tmp_path_factory.mktemp("real"), assets, flag))
        ours = launch(
            ServerSettings(
                directory=Path(tmp_path_factory.mktemp("ours")) / "kcm",
                in_memory=True,
                admission_config_file=str(configuration),
            )
        )
        stack.callback(ours.stop)
        yield Api(ours.kubeconfig), Api(real.kubeconfig)


def send(api: Api, method: str, path: str, body: Any, user: str) -> tuple[int, str, list[str]]:
    """Status, message and warnings."""
    server = urlsplit(api.url)
    connection = http.client.HTTPSConnection(server.hostname or "", server.port, context=api.tls, timeout=30)
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": kind, "Accept": "application/json"}
    if user:
        headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
    connection.request(method, path, json.dumps(body), headers)
    with closing(connection), connection.getresponse() as response:
        answer = json.loads(response.read())
        return response.status, answer.get("message", ""), response.headers.get_all("Warning") or []


def test_the_answers_are_the_same(sides: tuple[Api, Api]) -> None:
    answers = [[send(api, *step) for step in STEPS] for api in sides]
    wrong = [(step[:2], *both) for step, *both in zip(STEPS, *answers, strict=True) if both[0] != both[1]]
    assert wrong == [], wrong
    assert [status for status, _, _ in answers[0]].count(403) >= 3
