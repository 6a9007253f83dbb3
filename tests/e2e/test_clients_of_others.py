"""Clients that others wrote, against the embedded API server alone: the official one, lightkube and kr8s.

kopf, with an operator of its own, is in tests/test_examples.py.
"""

from __future__ import annotations

import gc
import select
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcm import ApiServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
                        },
                    }
                },
            }
        ],
    },
}


# Leads by the official client's leader election, and says so.
CANDIDATE = """
import sys
from kubernetes import config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

kubeconfig, name = sys.argv[1:]
config.load_kube_config(kubeconfig)
leaderelection.LeaderElection(
    electionconfig.Config(
        ConfigMapLock("leader", "default", name),
        lease_duration=3,
        renew_deadline=2,
        retry_period=1,
        onstarted_leading=lambda: print(name, flush=True),
        onstopped_leading=None,
    )
).run()
"""


def _collect() -> None:
    """These clients leave connections open until they are collected: here, and not amid another test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module", autouse=True)
def collected_at_last() -> Iterator[None]:
    yield
    _collect()


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    yield
    _collect()


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with ApiServer() as server:
        yield server.kubeconfig


class TestTheOfficialClient:
    @pytest.fixture
    def api(self, kubeconfig: Path) -> Iterator[Any]:
        config = pytest.importorskip("kubernetes").config
        with config.new_client_from_config(str(kubeconfig)) as api:
            yield api

    def test_typed_calls(self, api: Any) -> None:
        from kubernetes import client
        from kubernetes.client.rest import ApiException

        core = client.CoreV1Api(api)
        made = core.create_namespaced_config_map(
            "default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="typed"), data={"a": "b"})
        )
        made.data["c"] = "d"
        assert core.replace_namespaced_config_map("typed", "default", made).data == {"a": "b", "c": "d"}
        with pytest.raises(ApiException) as conflict:
            core.replace_namespaced_config_map("typed", "default", made)
        assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
        assert core.patch_namespaced_config_map("typed", "default", {"data": {"a": None}}).data == {"c": "d"}
        page = core.list_config_map_for_all_namespaces(limit=1)
        assert page.metadata._continue
        core.delete_namespaced_config_map("typed", "default")
        with pytest.raises(ApiException, match="Not Found"):
            core.read_namespaced_config_map("typed", "default")
        assert client.VersionApi(api).get_code().minor == "36"

    def test_dynamic_calls_of_a_custom_resource(self, api: Any) -> None:
        from kubernetes import dynamic

        anything = dynamic.DynamicClient(api)
        definitions = anything.resources.get(api_version="apiextensions.k8s.io/v1", kind="CustomResourceDefinition")
        definitions.create(body=CRD)
        try:
            anything.resources.invalidate_cache()
            widgets = anything.resources.get(api_version="example.com/v1", kind="Widget")
            body = {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "w"},
                "spec": {"replicas": 2},
            }
            assert widgets.create(body=body, namespace="default").spec.replicas == 2
            applied = {**body, "spec": {"replicas": 3}}
            shown = widgets.server_side_apply(
                body=applied, name="w", namespace="default", field_manager="tests", force_conflicts=True
            )
            assert shown.spec.replicas == 3
            widgets.status.patch(
                body={"status": {"replicas": 3}},
                name="w",
                namespace="default",
                content_type="application/merge-patch+json",
            )
            assert widgets.get(name="w", namespace="default").status.replicas == 3
            widgets.delete(name="w", namespace="default")
        finally:
            definitions.delete(name="widgets.example.com")

    def test_watch_resumes_from_its_resource_version(self, api: Any) -> None:
        from kubernetes import client, watch

        core = client.CoreV1Api(api)
        listed = core.list_namespaced_secret("default")
        for name in ("one", "two"):
            core.create_namespaced_secret("default", client.V1Secret(metadata=client.V1ObjectMeta(name=name)))
        core.delete_namespaced_secret("one", "default")
        version, seen = listed.metadata.resource_version, []
        stream = watch.Watch()
        for event in stream.stream(
            core.list_namespaced_secret, "default", resource_version=version, timeout_seconds=30
        ):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                stream.stop()
        assert seen == [("ADDED", "one"), ("ADDED", "two"), ("DELETED", "one")]

    def test_one_of_two_leads_and_the_other_follows(self, kubeconfig: Path) -> None:
        pytest.importorskip("kubernetes")
        candidates = {
            name: subprocess.Popen(
                [sys.executable, "-c", CANDIDATE, kubeconfig, name], stdout=subprocess.PIPE, text=True
            )
            for name in "ab"
        }
        try:
            assert candidates["a"].stdout is not None
            assert candidates["b"].stdout is not None
            ready, _, _ = select.select([candidate.stdout for candidate in candidates.values()], [], [], 60)
            (first,) = {ready[0].readline().strip()} if ready else {""}
            assert first in candidates
            (second,) = {*candidates} - {first}
            candidates[first].kill()
            follower = candidates[second].stdout
            assert follower is not None
            assert select.select([follower], [], [], 60)[0], "nobody follows"
            assert follower.readline() == f"{second}\n"
        finally:
            for candidate in candidates.values():
                candidate.kill()
                candidate.communicate()


class TestLightkube:
    @pytest.fixture
    def client(self, kubeconfig: Path) -> Any:
        lightkube = pytest.importorskip("lightkube")
        config = lightkube.KubeConfig.from_file(str(kubeconfig))
        return lightkube.Client(config=config, field_manager="tests")

    def test_objects_are_created_changed_and_deleted(self, client: Any) -> None:
        from lightkube.core.exceptions import ApiError
        from lightkube.models.meta_v1 import ObjectMeta
        from lightkube.resources.core_v1 import ConfigMap
        from lightkube.types import CascadeType, PatchType

        client.create(ConfigMap(metadata=ObjectMeta(name="light", namespace="default"), data={"a": "b"}))
        with pytest.raises(ApiError) as exists:
            client.create(ConfigMap(metadata=ObjectMeta(name="light", namespace="default")))
        assert exists.value.status.reason == "AlreadyExists"
        client.apply(ConfigMap(metadata=ObjectMeta(name="light", namespace="default"), data={"a": "c"}), force=True)
        assert client.get(ConfigMap, "light", namespace="default").data == {"a": "c"}
        client.patch(ConfigMap, "light", {"data": {"d": "e"}}, namespace="default", patch_type=PatchType.MERGE)
        names = [config_map.metadata.name for config_map in client.list(ConfigMap, namespace="*", chunk_size=2)]
        assert "light" in names
        kind, shown = next(client.watch(ConfigMap, namespace="default", fields={"metadata.name": "light"}))
        assert (kind, shown.metadata.name) == ("ADDED", "light")
        client.delete(ConfigMap, "light", namespace="default", cascade=CascadeType.FOREGROUND)
        with pytest.raises(ApiError):
            client.get(ConfigMap, "light", namespace="default")


# kr8s keeps its connections open until the process ends, and does not support Kubernetes 1.36 yet.
@pytest.mark.filterwarnings(
    "ignore:Kubernetes version", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
class TestKr8s:
    def test_objects_are_created_changed_and_deleted(self, kubeconfig: Path) -> None:
        kr8s = pytest.importorskip("kr8s")
        from kr8s.objects import ConfigMap, Pod

        api = kr8s.api(kubeconfig=str(kubeconfig))
        assert api.version()["minor"] == "36"
        pod = Pod(
            {"metadata": {"name": "k", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            api=api,
        )
        pod.create()
        assert pod.exists()
        pod.label({"tier": "front"})
        assert [pod.name for pod in kr8s.get("pods", namespace="default", label_selector="tier=front", api=api)] == [
            "k"
        ]
        pod.patch({"metadata": {"annotations": {"a": "b"}}})
        assert pod.annotations["a"] == "b"
        settings = ConfigMap({"metadata": {"name": "k", "namespace": "default"}, "data": {"a": "b"}}, api=api)
        settings.create()
        assert settings.data["a"] == "b"
        pod.delete(grace_period=0)
        pod.wait("delete", timeout=30)
        assert not pod.exists()
