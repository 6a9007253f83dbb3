"""Type checks of policies, storage version migrations and StorageVersions, with the real manager and with ours.

Numbers in the names of struct types differ: upstream's are nanoseconds. Upstream's apply to a CustomResourceDefinition
does not contain storedVersions unless it changes them, so managed fields differ.
"""

from __future__ import annotations

import re
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubectl import Api
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer, assets_or_skip, real_manager, real_server

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

SERVED = "--runtime-config=storagemigration.k8s.io/v1beta1=true,internal.apiserver.k8s.io/v1alpha1=true"
GATES = "--feature-gates=StorageVersionMigrator=true,StorageVersionAPI=true,APIServerIdentity=true"
NAMES = (
    "validatingadmissionpolicy-status-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
)
ENABLED = ",".join(dict.fromkeys((*CONTROLLERS, "garbage-collector-controller", *NAMES)))


class Client(Api):
    """API client whose `get` returns None for an object that does not exist."""

    def get(self, path: str) -> Any:
        try:
            return super().get(path)
        except urllib.error.HTTPError as err:
            if err.code in (404, 429):  # 429: a custom kind whose storage is not ready yet
                return None
            raise

    def post(self, path: str, body: dict[str, Any]) -> Any:
        try:
            return self.request("POST", path, body)
        except urllib.error.HTTPError as err:
            raise AssertionError(err.read().decode()) from err

    def put(self, path: str, body: dict[str, Any]) -> Any:
        return self.request("PUT", path, body)

    def delete(self, path: str) -> None:
        self.request("DELETE", path)


POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MIGRATIONS = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations"
VERSIONS = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
GAUGES = "/apis/example.com/v1/namespaces/default/gauges"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with real_server(tmp_path_factory.mktemp("versions"), assets_or_skip(), SERVED, GATES) as running:
        yield running


@pytest.fixture(params=["real", "ours"])
def _manager(request: pytest.FixtureRequest, server: RealServer, tmp_path: Path) -> Iterator[None]:
    if request.param == "real":
        with real_manager(server, f"--controllers={ENABLED}", GATES):
            yield
    else:
        access = (f"--kubeconfig={server.manager_kubeconfig}", "--use-service-account-credentials")
        flags = (*access, "--leader-elect=false", f"--controllers={ENABLED}", GATES)
        with managing(tmp_path / "ours.log", *flags) as manager:
            yield
        assert "forbidden" not in manager.program.text()


def definition(storage: str, plural: str = "gauges", kind: str = "Gauge") -> dict[str, Any]:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "port": {"x-kubernetes-int-or-string": True}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    versions = [
        {"name": name, "served": True, "storage": name == storage, "schema": {"openAPIV3Schema": schema}}
        for name in ("v1", "v2")
    ]
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions},
    }


def rule(group: str, version: str, resource: str) -> dict[str, Any]:
    return {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": ["*"]}


DEPLOYMENTS, PODS, EVENTS = rule("apps", "v1", "deployments"), rule("", "v1", "pods"), rule("", "v1", "events")
CUSTOM = rule("example.com", "v1", "gauges")
CASES: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "valid": ([DEPLOYMENTS], {"expressions": ["object.spec.replicas > 1"]}),
    "confused": ([DEPLOYMENTS], {"expressions": ["object.spec.replicas > '1' && object.spec.nothing == 1"]}),
    "kinds": ([PODS, DEPLOYMENTS], {"expressions": ["object.spec.replicas > 1", "object.spec.containers.size() > 0"]}),
    "structs": (
        [DEPLOYMENTS],
        {"expressions": ["object.spec.template == 'a'", "object.spec.template.spec.containers[0] > 1"]},
    ),
    "maps": (
        [PODS],
        {
            "expressions": [
                "object.metadata.labels['a'] > 1",
                "object.spec.containers.all(c, c.resources.limits.cpu == '1')",
            ]
        },
    ),
    "ports": ([PODS], {"expressions": ["object.spec.containers[0].livenessProbe.httpGet.port == 80"]}),
    "events": ([EVENTS], {"expressions": ["object.note == 'a'", "object.message == 'a'"]}),
    "custom": (
        [CUSTOM],
        {"expressions": ["object.spec.size > '1'", "object.spec.port == 'a'", "object.spec.none == 1"]},
    ),
    "wildcard": ([rule("*", "*", "*"), rule("apps", "v1", "deployments/scale")], {"expressions": ["object.none == 1"]}),
    "variables": (
        [DEPLOYMENTS],
        {
            "expressions": ["variables.size > '1'", "variables.spec.none == 1", "variables.wrong == 1"],
            "variables": [
                {"name": "size", "expression": "object.spec.replicas"},
                {"name": "spec", "expression": "object.spec"},
                {"name": "wrong", "expression": "object.none"},
            ],
        },
    ),
    "params": (
        [DEPLOYMENTS],
        {
            "expressions": ["object.spec.replicas < params.limit", "params.data['a'] > 1"],
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        },
    ),
    "messages": ([DEPLOYMENTS], {"expressions": ["true"], "message": "'a' + string(object.spec.replicas.none)"}),
    "authorizer": (
        [DEPLOYMENTS],
        {
            "expressions": [
                "authorizer.requestResource.check('get').allowed()",
                "authorizer.group('').resource('a').check('b').allowed()",
            ]
        },
    ),
    "functions": (
        [PODS],
        {
            "expressions": [
                "object.metadata.creationTimestamp > 1",
                'object.spec.terminationGracePeriodSeconds.find("a") == "b"',
                "object.spec.volumes.exists(v, v.name == 1)",
                "has(object.spec.none) || object.metadata.annotations.exists(k, k > 1)",
                'quantity(object.spec.priority).isGreaterThan(quantity("1"))',
            ]
        },
    ),
}


def policy(name: str, rules: list[dict[str, Any]], more: dict[str, Any]) -> dict[str, Any]:
    validations = [{"expression": text} for text in more["expressions"]]
    if "message" in more:
        validations[0]["messageExpression"] = more["message"]
    others = {field: more[field] for field in ("variables", "paramKind") if field in more}
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": validations, "failurePolicy": "Ignore"}
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    return {**kind, "metadata": {"name": name}, "spec": {**spec, **others}}


def checked(api: Client, name: str) -> Any:
    status = (api.get(f"{POLICIES}/{name}") or {}).get("status") or {}
    return status.get("typeChecking") if status.get("observedGeneration") == 1 else None


RESULTS: dict[str, Any] = {}
"""Results of the real manager, which runs first, by test."""


def compare(test: str, found: Any) -> None:
    assert RESULTS.setdefault(test, found) == found


@pytest.mark.usefixtures("_manager")
def test_policies_have_the_same_warnings(server: RealServer) -> None:
    api = Client(server.kubeconfig)
    if api.get(f"{DEFINITIONS}/gauges.example.com") is None:
        api.post(DEFINITIONS, definition("v1"))
        until(lambda: api.get(GAUGES), "the custom kind is served")
        # The real manager skips a kind whose schema is not published yet.
        until(lambda: "Gauge" in str(api.get("/openapi/v3/apis/example.com/v1")), "its schema is published")
    for name, (rules, more) in CASES.items():
        api.post(POLICIES, policy(name, rules, more))
    until(lambda: all(checked(api, name) is not None for name in CASES), "all policies are checked")
    found = {name: _without_numbers(checked(api, name)) for name in CASES}
    for name in CASES:
        manager = [each["manager"] for each in api.get(f"{POLICIES}/{name}")["metadata"]["managedFields"]]
        assert "validatingadmissionpolicy-status" in manager
        api.delete(f"{POLICIES}/{name}")
    compare("policies", found)


def _without_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_numbers(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_numbers(each) for each in value]
    return re.sub(r"\b(Deployment|Pod|ConfigMap|Event|Gauge)\d+", r"\1", value)


def conditions(obj: Any) -> list[Any]:
    fields = ("type", "status", "reason", "message", "observedGeneration")
    return [{name: each.get(name) for name in fields} for each in (obj.get("status") or {}).get("conditions") or ()]


def migration(name: str, group: str, resource: str) -> dict[str, Any]:
    kind = {"apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration"}
    return {**kind, "metadata": {"name": name}, "spec": {"resource": {"group": group, "resource": resource}}}


def ended(api: Client, name: str) -> bool:
    types = {each["type"]: each["status"] for each in conditions(api.get(f"{MIGRATIONS}/{name}") or {})}
    return types.get("Running") == "False" and ("Succeeded" in types or "Failed" in types)


@pytest.mark.usefixtures("_manager")
def test_objects_are_migrated_in_the_same_way(server: RealServer, request: pytest.FixtureRequest) -> None:
    api = Client(server.kubeconfig)
    plural = "meters" if "real" in request.node.name else "dials"
    place = f"/apis/example.com/v1/namespaces/default/{plural}"
    key = f"{DEFINITIONS}/{plural}.example.com"
    api.post(DEFINITIONS, definition("v1", plural, plural.capitalize()))
    until(lambda: api.get(place), "the custom kind is served")
    for name in ("a", "b"):
        body = {"apiVersion": "example.com/v1", "kind": plural.capitalize(), "metadata": {"name": name}}
        until(lambda body=body: api.post(place, body), "created")
    changed = api.get(key)
    changed["spec"] = definition("v2", plural, plural.capitalize())["spec"]
    api.put(key, changed)
    names = ["first", "second", "configmaps", "missing"]
    api.post(MIGRATIONS, migration("first", "example.com", plural))
    until(
        lambda: ended(api, "first"),
        "the first migration has ended",
        within=200.0,
        why=lambda: str(api.get(f"{MIGRATIONS}/first")),
    )
    api.post(MIGRATIONS, migration("second", "example.com", plural))
    api.post(MIGRATIONS, migration("configmaps", "", "configmaps"))
    api.post(MIGRATIONS, migration("missing", "example.com", "missing"))
    until(
        lambda: all(ended(api, name) for name in names),
        "all migrations have ended",
        within=200.0,
        why=lambda: str([api.get(f"{MIGRATIONS}/{name}") for name in names]),
    )
    found = {name: conditions(api.get(f"{MIGRATIONS}/{name}")) for name in names}
    crd = api.get(key)
    found["definition"] = [each for each in conditions(crd) if each["type"] == "StorageMigrating"]
    found["stored"] = crd["status"]["storedVersions"]
    assert {each["apiVersion"] for each in api.get(place)["items"]} == {"example.com/v1"}
    for name in names:
        api.delete(f"{MIGRATIONS}/{name}")
    compare("migrations", found)


def version(name: str) -> dict[str, Any]:
    kind = {"apiVersion": "internal.apiserver.k8s.io/v1alpha1", "kind": "StorageVersion"}
    return {**kind, "metadata": {"name": name}, "spec": {}}


def entry(server_id: str, encoding: str) -> dict[str, Any]:
    return {
        "apiServerID": server_id,
        "encodingVersion": encoding,
        "decodableVersions": [encoding],
        "servedVersions": [encoding],
    }


@pytest.mark.usefixtures("_manager")
def test_lost_api_servers_are_removed_in_the_same_way(server: RealServer) -> None:
    api = Client(server.kubeconfig)
    for name in ("server-a", "server-b"):
        meta = {
            "name": name,
            "namespace": "kube-system",
            "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
        }
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta,
            "spec": {"holderIdentity": name},
        }
        api.post(LEASES, lease)
    cases = {
        "x.example.com.ones": [entry("server-a", "v1"), entry("server-b", "v1"), entry("unknown", "v2")],
        "x.example.com.twos": [entry("server-a", "v1"), entry("server-b", "v2")],
        "x.example.com.threes": [entry("server-a", "v1")],
    }
    for name, servers in cases.items():
        stored = api.post(VERSIONS, version(name))
        versions = {each["encodingVersion"] for each in servers}
        stored["status"] = {
            "storageVersions": servers,
            **({"commonEncodingVersion": versions.pop()} if len(versions) == 1 else {}),
        }
        api.put(f"{VERSIONS}/{name}/status", stored)

    def servers_of(name: str) -> list[str] | None:
        found = api.get(f"{VERSIONS}/{name}")
        return None if found is None else [each["apiServerID"] for each in found["status"].get("storageVersions", [])]

    until(lambda: servers_of("x.example.com.ones") == ["server-a", "server-b"], "the unknown server is removed")
    first = _status(api, "x.example.com.ones")
    api.delete(f"{LEASES}/server-a")
    until(lambda: servers_of("x.example.com.threes") is None, "the last server is removed")
    until(
        lambda: servers_of("x.example.com.twos") == servers_of("x.example.com.ones") == ["server-b"],
        "server-a is removed",
    )
    found = [first, *(_status(api, name) for name in ("x.example.com.ones", "x.example.com.twos"))]
    api.delete(f"{LEASES}/server-b")
    until(lambda: servers_of("x.example.com.ones") is servers_of("x.example.com.twos") is None, "all are deleted")
    compare("versions", found)


def _status(api: Client, name: str) -> Any:
    status = api.get(f"{VERSIONS}/{name}")["status"]
    return {**status, "conditions": conditions({"status": status})}
