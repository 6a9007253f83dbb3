"""An operator on a real kube-apiserver with RBAC, with the rights of its generated manifests alone."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
from pathlib import Path

import pytest
import yaml

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


@pytest.mark.e2e
@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_operator_runs_with_the_rights_of_its_generated_manifests(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "manifests", SPECS, f"--namespace={NAMESPACE}"]
    manifests = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with real_server(tmp_path, assets_or_skip()) as server:
        api = Api(server.kubeconfig)
        apply_all(api, manifests)
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{NAME}"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = api.request("POST", f"{account}/token", request)["status"]["token"]
        config = yaml.safe_load(server.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        kubeconfig = tmp_path / "operator.kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(config))
        own = Api(kubeconfig)
        with pytest.raises(urllib.error.HTTPError) as refused:
            own.get("/api/v1/namespaces/default/secrets")
        assert refused.value.code == 403
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
