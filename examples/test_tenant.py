"""The two tenant operators, written with kcm and with kopf, on a running API server."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from directory import Directory
from kopf_runs import kopf_running, registry_of, with_rights
from kubernetes import client, config
from kubernetes.client import ApiException
from remote_checks import until
from tenant_operator import tenant_spec
from test_website import manifest

from kcm import ControllerSystem, api_transport

KOPF = registry_of("tenant_operator_kopf")
WHERE = ("example.com", "v1", "tenants")


@contextmanager
def with_kcm(kubeconfig: Path, directory: Directory) -> Iterator[None]:
    with (
        api_transport(kubeconfig) as transport,
        ControllerSystem(transport=transport, controllers=(tenant_spec(directory),)),
    ):
        yield


@contextmanager
def with_kopf(kubeconfig: Path, directory: Directory) -> Iterator[None]:
    with with_rights(kubeconfig, "tenant-operator"), kopf_running(KOPF, directory=directory):
        yield


class TenantUser:
    def __init__(self, api: client.ApiClient) -> None:
        self.core: Any = client.CoreV1Api(api)
        self.rbac: Any = client.RbacAuthorizationV1Api(api)
        self.custom: Any = client.CustomObjectsApi(api)
        crds: Any = client.ApiextensionsV1Api(api)
        if not any(crd.metadata.name == "tenants.example.com" for crd in crds.list_custom_resource_definition().items):
            crds.create_custom_resource_definition(manifest("tenant-crd.yml"))

    def make(self, name: str, **spec: Any) -> None:
        form = manifest("tenant.yml")
        body = {**form, "metadata": {"name": name}, "spec": form["spec"] | spec}
        self.custom.create_cluster_custom_object(*WHERE, body)

    def change(self, name: str, **spec: Any) -> None:
        self.custom.patch_cluster_custom_object(*WHERE, name, {"spec": spec})

    def delete(self, name: str) -> None:
        self.custom.delete_cluster_custom_object(*WHERE, name)

    def tenant(self, name: str) -> Any:
        try:
            return self.custom.get_cluster_custom_object(*WHERE, name)
        except ApiException as err:
            if err.status == 404:
                return None
            raise

    def verdict(self, name: str) -> tuple[str, str]:
        """Return status and reason of the condition Ready; empty until it is about the present generation."""
        tenant = self.tenant(name)
        for condition in tenant.get("status", {}).get("conditions", []):
            if condition["type"] == "Ready" and condition["observedGeneration"] == tenant["metadata"]["generation"]:
                return condition["status"], condition["reason"]
        return "", ""

    def namespaces(self, tenant: str) -> set[str]:
        """Return the short names of a tenant's namespaces, except those that are being deleted."""
        found = [item.metadata for item in self.core.list_namespace().items if item.metadata.deletion_timestamp is None]
        return {meta.name.removeprefix(f"{tenant}-") for meta in found if meta.name.startswith(f"{tenant}-")}

    def quota(self, namespace: str) -> dict[str, str]:
        found = self.core.list_namespaced_resource_quota(namespace).items
        return {} if not found else dict(found[0].spec.hard)

    def admins(self, namespace: str) -> list[str]:
        found = self.rbac.list_namespaced_role_binding(namespace).items
        return [subject.name for binding in found for subject in binding.subjects or ()]


@pytest.fixture
def user(kubeconfig: Path) -> Iterator[TenantUser]:
    with config.new_client_from_config(str(kubeconfig)) as api:
        yield TenantUser(api)


@pytest.mark.parametrize("running", [with_kcm, with_kopf], ids=["kcm", "kopf"])
def test_tenant_is_provided_repaired_and_deleted(
    running: Callable[[Path, Directory], AbstractContextManager[None]],
    user: TenantUser,
    kubeconfig: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    directory, name = Directory(), running.__name__.replace("_", "-")
    user.core.create_namespace({"metadata": {"name": f"{name}-live"}})
    with running(kubeconfig, directory):
        user.make(name)
        # The name of one namespace is taken: the tenant gets the others, and its status reports the missing one.
        until(lambda: user.verdict(name) == ("False", "NameTaken"))
        assert user.tenant(name)["status"]["namespaces"] == [f"{name}-dev"]
        assert user.quota(f"{name}-dev") == {"pods": "20"}
        assert user.admins(f"{name}-dev") == ["anna"]
        assert (user.quota(f"{name}-live"), user.admins(f"{name}-live")) == ({}, [])
        # No event informs the operator that the name is free.
        user.core.delete_namespace(f"{name}-live")
        until(lambda: user.verdict(name) == ("True", "Provided"))
        ((uid, account),) = directory.accounts()
        assert uid == user.tenant(name)["metadata"]["uid"]
        assert user.tenant(name)["status"]["account"] == account.number
        # A change of the spec is carried out.
        user.change(name, namespaces=["dev", "test"], admins=["ben", "chloe"], quota={"pods": "5"})
        until(lambda: user.namespaces(name) == {"dev", "test"} and user.verdict(name) == ("True", "Provided"))
        for namespace in (f"{name}-dev", f"{name}-test"):
            assert user.quota(namespace) == {"pods": "5"}
            assert user.admins(namespace) == ["ben", "chloe"]
        assert directory.accounts()[0][1].members == ("ben", "chloe")
        # Manual changes are reverted.
        user.core.delete_namespaced_resource_quota("tenant", f"{name}-dev")
        user.rbac.patch_namespaced_role_binding("tenant", f"{name}-test", {"subjects": []})
        until(lambda: user.quota(f"{name}-dev") == {"pods": "5"} and user.admins(f"{name}-test") == ["ben", "chloe"])
        # A deleted tenant remains until its account is closed; then its namespaces are deleted as well.
        user.delete(name)
        until(lambda: user.tenant(name) is None)
        assert directory.accounts() == []
        until(lambda: user.namespaces(name) == set())
    events = {
        event.reason for event in user.core.list_namespaced_event("default").items if event.involved_object.name == name
    }
    assert {"NameTaken", "Provided"} <= events
