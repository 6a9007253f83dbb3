"""Malformed requests get a response, never crash the server, and never store an object that breaks later requests."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies._internal.core import DataObject

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.kind_checks import TypeChecks
from kcm.runtime.apiserver.schema.scalars import UnmarshalTypeError
from kcm.runtime.schema.api_types import built_in_types
from tests.runtime.apiserver.conftest import Api

SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=5)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [path] if path else []
    for key, inner in items:
        found += places(inner, (*path, key))
    return found


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = new
    return result


FULL_POD = {
    "metadata": {
        "name": "web",
        "labels": {"a": "b"},
        "annotations": {"a": "b"},
        "finalizers": ["example.com/x"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": True}],
    },
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "ports": [{"containerPort": 80, "name": "http"}],
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "readinessProbe": {"httpGet": {"port": "http"}},
                "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
            }
        ],
        "volumes": [{"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "nodeSelector": {"a": "b"},
        "schedulingGates": [{"name": "g"}],
        "activeDeadlineSeconds": 10,
        "securityContext": {},
    },
}
TEMPLATE_SPEC = {field: value for field, value in FULL_POD["spec"].items() if field != "activeDeadlineSeconds"}
DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": TEMPLATE_SPEC},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "10%"}},
        "minReadySeconds": 1,
        "progressDeadlineSeconds": 60,
    },
}
SERVICE = {
    "metadata": {"name": "s"},
    "spec": {"ports": [{"port": 80, "name": "a"}], "clusterIP": "", "type": "NodePort"},
}
EVENT = {
    "metadata": {"name": "e"},
    "involvedObject": {"namespace": "default", "name": "x"},
    "source": {"component": "c"},
    "lastTimestamp": "2020-01-01T00:00:00Z",
    "count": 1,
}
JOB = {
    "metadata": {"name": "j"},
    "spec": {"template": {"spec": {**FULL_POD["spec"], "restartPolicy": "Never"}}, "backoffLimit": 1, "suspend": True},
}
NODE = {
    "metadata": {"name": "n"},
    "spec": {"taints": [{"key": "a", "effect": "NoExecute"}], "podCIDRs": ["10.0.0.0/24"]},
    "status": {"capacity": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True"}]},
}
SECRET = {"metadata": {"name": "x"}, "data": {"a": "Yg=="}, "stringData": {"b": "c"}, "type": "Opaque"}
DEFINITION = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["t"], "categories": ["all"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {"status": {}},
            }
        ],
    },
}
BODIES = [
    ("pods", FULL_POD),
    ("deployments", DEPLOYMENT),
    ("services", SERVICE),
    ("events", EVENT),
    ("jobs", JOB),
    ("nodes", NODE),
    ("secrets", SECRET),
    ("customresourcedefinitions", DEFINITION),
]


@pytest.mark.parametrize("resource,body", BODIES, ids=[resource for resource, _ in BODIES])
def test_unmodified_bodies_are_valid(api: Api, resource: str, body: Object) -> None:
    assert api.create(resource, body).status == 201


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_wrong_value_anywhere_is_rejected_or_harmless(make_api: type[Any], data: DataObject) -> None:
    """One value of a valid object is replaced by a random one. If the object is stored, all verbs are applied to it."""
    api = make_api()
    resource, good = data.draw(st.sampled_from(BODIES))
    path = data.draw(st.sampled_from(places(good)))
    body = replaced(good, path, data.draw(JSON))
    listener = api.watch(resource, fieldSelector="metadata.name!=x", labelSelector="a!=z")

    assert api.create(resource, body).status in (201, 400, 403, 409, 422)

    api.create(resource, good)
    name = good["metadata"]["name"]
    for answer in (
        api.patch(resource, name, body),
        api.patch(resource, name, body, "strategic"),
        api.send("PUT", api.path(resource, name), body),
        api.patch(resource, name, body, subresource="status"),
        api.list(resource),
        api.delete(resource, name, {"propagationPolicy": "Foreground"}),
        api.send("DELETE", api.path(resource)) if resource != "namespaces" else api.list(resource),
    ):
        assert answer.status in (200, 400, 403, 404, 409, 422)
    assert all(event["type"] in ("ADDED", "MODIFIED", "DELETED") for event in listener.events)


@settings(max_examples=200, deadline=None)
@given(
    raw=st.binary(max_size=30) | JSON.map(orjson.dumps),
    form=st.sampled_from(["merge", "strategic", "json", "apply"]),
    subresource=st.sampled_from(["", "status", "scale", "binding", "eviction", "finalize"]),
)
def test_random_body_is_rejected_or_harmless(make_api: type[Any], raw: bytes, form: str, subresource: str) -> None:
    api = make_api()
    for resource in ("pods", "replicasets", "namespaces"):
        name = "default" if resource == "namespaces" else "web"
        if resource != "namespaces":
            api.create(resource, api.pod() if resource == "pods" else api.replicaset())
        path = api.path(resource, name, subresource)
        for method in ("POST", "PUT", "DELETE"):
            assert 200 <= api.send(method, path, raw).status < 500
        assert 200 <= api.patch(resource, name, raw, form, subresource).status < 500


@settings(max_examples=150, deadline=None)
@given(
    query=st.dictionaries(
        st.sampled_from(
            [
                "labelSelector",
                "fieldSelector",
                "limit",
                "continue",
                "resourceVersion",
                "resourceVersionMatch",
                "timeoutSeconds",
                "sendInitialEvents",
                "allowWatchBookmarks",
            ]
        ),
        st.text(max_size=12)
        | st.sampled_from(["0", "1", "99999999999999999999", "-1", "true", "Exact", "a=b", "a in (b)"]),
    )
)
def test_random_query_is_rejected_or_harmless(make_api: type[Any], query: Object) -> None:
    api = make_api()
    api.create("pods", api.pod())
    assert api.list("pods", **query).status in (200, 400, 410, 422, 504)
    watch = api.watch("pods", **query).watch
    assert not hasattr(watch, "status") or watch.status in (400, 422, 504) or b"resourceVersion: Invalid" in watch.body


@given(
    path=st.text(max_size=20)
    | st.lists(st.sampled_from(["api", "apis", "v1", "namespaces", "pods", "", "x"])).map("/".join)
)
def test_random_path_is_rejected_or_harmless(api_for_paths: Api, path: str) -> None:
    assert api_for_paths.send("GET", "/" + path).status in (200, 404)


@pytest.fixture(scope="module")
def api_for_paths(make_api: type[Any]) -> Api:
    return make_api()


@pytest.mark.parametrize("depth", [150, 250, 1000, 100_000])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_deeply_nested_value_is_stored_or_rejected(api: Api, depth: int, method: str) -> None:
    """The JSON encoder, Python's stack and Python's comparison have limits of depth."""
    names = {"plural": "things", "kind": "Thing"}
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        }
    ]
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions}
    api.create("customresourcedefinitions", {"metadata": {"name": "things.example.com"}, "spec": spec})
    api.create("things", {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})
    nested = b"[" * depth + b"]" * depth
    head = b'{"apiVersion":"example.com/v1","kind":"Thing",'
    body = head + b'"metadata":{"generateName":"t","name":"t","resourceVersion":""},"spec":' + nested + b"}"
    path = api.path("things") if method == "POST" else api.path("things", "t")
    status = api.send(method, path, body, type_="application/merge-patch+json").status
    assert status in (200, 400, 409, 422)
    assert api.list("things").status == 200


def test_json_patch_with_exponential_nesting_is_rejected(api: Api) -> None:
    api.create("configmaps", {"metadata": {"name": "c"}})
    operations = [{"op": "add", "path": "/a", "value": {}}]
    operations += [{"op": "copy", "from": "/a", "path": "/a" + "/a" * i} for i in range(1, 300)]
    assert api.patch("configmaps", "c", operations, "json").status == 422


WRONG = (7, "x", [], {}, True, 1.5)


def test_value_of_wrong_type_is_rejected_in_every_field() -> None:
    type_checks = TypeChecks(built_in_types())
    definition = ResourceDefinition(plural="pods", kind="Pod")
    accepted = set()
    for path in places(FULL_POD):
        original: Any = FULL_POD
        for key in path:
            original = original[key]
        for wrong in WRONG:
            if type(original) is not type(wrong):
                try:
                    type_checks.check(
                        definition, {"kind": "Pod", "apiVersion": "v1", **replaced(FULL_POD, path, wrong)}
                    )
                except UnmarshalTypeError:
                    continue
                accepted.add(path[-1])
    assert accepted == {"cpu", "port"}  # a quantity may be a number, a port a name


def test_invalid_time_is_rejected_with_its_field(api: Api) -> None:
    api.create("pods", {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-13-45T99:99:99Z"}
    answer = api.patch("pods", "web", {"status": {"conditions": [condition]}}, "merge", subresource="status")
    assert answer.status in (400, 422)
    assert "2026-13-45T99:99:99Z" in answer.message
    assert "lastTransitionTime" in answer.message
    lease = {"metadata": {"name": "n1"}, "spec": {"renewTime": "2026-13-45T99:99:99Z"}}
    answer = api.create("leases", lease)
    assert (answer.status, answer.reason) == (400, "BadRequest")
    assert "LeaseSpec.spec.renewTime" in answer.message


def test_patch_that_sets_kind_to_a_non_string_is_rejected(api: Api) -> None:
    api.create("configmaps", {"metadata": {"name": "c"}})
    for field, value, word in (("apiVersion", {"a": 1}, "object"), ("kind", [1], "array"), ("kind", True, "bool")):
        answer = api.patch("configmaps", "c", [{"op": "add", "path": f"/{field}", "value": value}], "json")
        assert 400 <= answer.status < 500
        assert f"cannot unmarshal {word} into Go struct field .{field} of type string" in answer.message


def test_unreadable_managed_fields_are_ignored(api: Api) -> None:
    labels = {"a": "b"}
    stored = api.create("configmaps", {"metadata": {"name": "c", "labels": labels}}).meta["managedFields"]
    bad = [{"op": "add", "path": "/metadata/managedFields/0/fieldsV1/f:metadata/f:labels", "value": "x"}]
    assert api.patch("configmaps", "c", bad, "json").meta["managedFields"] == stored
    malformed = [{**stored[0], "fieldsV1": {"f:data": 7}}]
    assert api.create("configmaps", {"metadata": {"name": "d", "managedFields": malformed}}).status == 201


def test_delete_options_with_values_of_wrong_types_are_refused(api: Api) -> None:
    api.create("configmaps", {"metadata": {"name": "c"}})
    for value, wanted in ((7, "[]string"), ([7], "string")):
        answer = api.delete("configmaps", "c", {"dryRun": value})
        assert (answer.status, answer.message) == (
            400,
            f"json: cannot unmarshal number into Go struct field DeleteOptions.dryRun of type {wanted}",
        )
    assert api.exists("configmaps", "c")
