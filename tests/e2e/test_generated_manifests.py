"""Operators on API servers with RBAC, with the rights of their generated manifests alone."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
from pathlib import Path

import pytest
import yaml

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.programs import ROOT, ending, spawn, until
from tests.e2e.real_server import assets_or_skip, real_server

SPECS = "tests.actors.command.generation.operators:SPEC"
NAME, NAMESPACE = "website-controller", "web"
OPERATOR = f"""
import sys
from kcm import main
from tests.actors.command.generation.operators import SPEC
sys.exit(main([SPEC], name="{NAME}", namespace="{NAMESPACE}"))
"""
TENANTS = "/apis/example.com/v1/tenants"
WEBSITES = "/apis/example.com/v1/namespaces/default/websites"


def apply_all(api: Api, text: str) -> None:
    """Apply the documents in their order; the reader Role of kube-system may appear a moment after the server."""
    paths = {
        "Namespace": "/api/v1/namespaces",
        "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
        "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
        "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    }
    for obj in yaml.safe_load_all(text):
        path = paths[obj["kind"]].format(obj["metadata"].get("namespace", ""))
        created = api.request("POST", f"{path}?fieldValidation=Strict", obj)
        assert created["metadata"]["name"] == obj["metadata"]["name"]


def manifests_of(specs: str, *options: str) -> str:
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "manifests", specs, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def kubeconfig_of_account(administrator: Path, name: str, *, namespace: str, directory: Path) -> Path:
    """Write the kubeconfig of a ServiceAccount, with a new token, and check that the server authorizes its requests."""
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = Api(administrator).request("POST", f"{account}/token", request)["status"]["token"]
    config = yaml.safe_load(administrator.read_text())
    config["users"][0]["user"] = {"token": token}
    kubeconfig = directory / "operator.kubeconfig"
    kubeconfig.write_text(yaml.safe_dump(config))
    with pytest.raises(urllib.error.HTTPError) as refused:
        Api(kubeconfig).get("/api/v1/namespaces/default/secrets")
    with refused.value:
        assert refused.value.code == 403
    return kubeconfig


@pytest.mark.e2e
@pytest.mark.parametrize(("may_bind", "reason"), [(True, "Provided"), (False, "")])
def test_example_operator_grants_more_than_it_may_do_with_the_right_to_bind(
    may_bind: bool, reason: str, tmp_path: Path
) -> None:
    text = manifests_of("examples/tenant_operator.py:tenant_spec", "--name=tenant-operator", "--namespace=tenants")
    server = launch(ServerSettings(directory=tmp_path / "server"))
    try:
        api = Api(server.kubeconfig)
        apply_all(api, text if may_bind else text.replace("  - bind\n", "  - get\n"))
        # As the controller that aggregates ClusterRoles does, which does not run here.
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]
        merge = "application/merge-patch+json"
        api.request("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/admin", {"rules": rules}, type=merge)
        kubeconfig = kubeconfig_of_account(
            server.kubeconfig, "tenant-operator", namespace="tenants", directory=tmp_path
        )
        flags = ("--leader-elect-resource-namespace=tenants", "--secure-port=0", f"--kubeconfig={kubeconfig}")
        log = tmp_path / "operator.log"
        with ending(spawn([sys.executable, str(ROOT / "examples" / "tenant_operator.py"), *flags], log)) as operator:
            api.request("POST", TENANTS, next(yaml.safe_load_all((ROOT / "examples" / "tenant.yml").read_text())))
            if may_bind:
                until(lambda: reason_of_tenant(api) == reason, "it has its namespaces", why=operator.text)
            else:
                refused = "create rolebindings.rbac.authorization.k8s.io"
                until(lambda: refused in operator.text(), "it may not grant", why=operator.text)
                assert reason_of_tenant(api) == reason
    finally:
        server.stop()


def reason_of_tenant(api: Api) -> str:
    (tenant,) = api.get(TENANTS)["items"]
    conditions = tenant.get("status", {}).get("conditions") or [{}]
    return str(conditions[0].get("reason", ""))


@pytest.mark.e2e
@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_operator_runs_with_the_rights_of_its_generated_manifests(tmp_path: Path) -> None:
    manifests = manifests_of(SPECS, f"--namespace={NAMESPACE}")
    with real_server(tmp_path, assets_or_skip()) as server:
        api = Api(server.kubeconfig)
        apply_all(api, manifests)
        kubeconfig = kubeconfig_of_account(server.kubeconfig, NAME, namespace=NAMESPACE, directory=tmp_path)
        file = tmp_path / "website_operator.py"
        file.write_text(OPERATOR)
        flags = [f"--{what}kubeconfig={kubeconfig}" for what in ("", "authentication-", "authorization-")]
        arguments = [sys.executable, str(file), *flags, "--secure-port=0", "-v=2"]
        with ending(
            spawn(arguments, tmp_path / "operator.log", environ={**os.environ, "PYTHONPATH": str(ROOT)})
        ) as operator:
            api.request(
                "POST",
                WEBSITES,
                {
                    "apiVersion": "example.com/v1",
                    "kind": "Website",
                    "metadata": {"name": "blog"},
                    "spec": {"replicas": 2},
                },
            )

            def is_published() -> bool:
                return bool(api.get(f"{WEBSITES}/blog").get("status", {}).get("replicas") == 2)

            until(is_published, "the website is published", why=operator.text)
            assert api.get("/api/v1/namespaces/default/configmaps/blog")["data"] == {"theme": "plain"}
            lease = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}")
            assert lease["spec"]["holderIdentity"]
            events = "/api/v1/namespaces/default/events"
            until(
                lambda: [each for each in api.get(events)["items"] if each["reason"] == "Published"],
                "the event is recorded",
                why=operator.text,
            )
            for line in operator.text().splitlines():
                assert "orbidden" not in line, line
                assert "cannot " not in line, line
