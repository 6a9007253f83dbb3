"""POST: server-assigned fields and rejected requests."""

from __future__ import annotations

import pytest

from tests.runtime.apiserver.conftest import Api

PODS = "/api/v1/namespaces/default/pods"


def test_new_object_gets_server_assigned_metadata(api: Api) -> None:
    body = api.pod()
    body["metadata"] |= {"uid": "mine", "generation": 7, "creationTimestamp": "1999-01-01T00:00:00Z"}
    body["status"] = {"phase": "Running"}

    created = api.create("pods", body)

    assert created.status == 201
    meta = created.meta
    assert meta["uid"].startswith("uid-")
    assert meta["namespace"] == "default"
    assert meta["creationTimestamp"] == "2001-09-09T01:46:40Z"
    assert meta["generation"] == 1
    assert meta["resourceVersion"] == str(api.server.revision)
    assert (created.obj["kind"], created.obj["apiVersion"]) == ("Pod", "v1")
    assert created.obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert api.get("pods", "web").obj == created.obj


def test_quantities_are_stored_in_canonical_form(api: Api) -> None:
    resources = {"requests": {"cpu": 0.5, "memory": "1024Mi"}}
    created = api.create("pods", api.pod(containers=[{"name": "c", "image": "i", "resources": resources}]))
    assert created.obj["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_generated_name_has_five_random_characters_and_is_retried_on_conflict(api: Api) -> None:
    body = api.pod()
    body["metadata"] = {"generateName": "web-"}
    assert api.create("pods", body).meta["name"] == "web-00000"
    api.create("pods", api.pod("web-00001"))
    assert api.create("pods", body).meta["name"] == "web-00002"


def test_generated_name_that_always_exists_is_a_conflict(api: Api) -> None:
    body = api.pod()
    body["metadata"] = {"generateName": "web-"}
    for i in range(9):
        api.create("pods", api.pod(f"web-{i:05d}"))
    refused = api.create("pods", body)
    assert (refused.status, refused.reason) == (409, "AlreadyExists")
    assert refused.message.endswith("already exists, the server was not able to generate a unique name for the object")


def test_a_generated_name_is_cut_to_63_characters(api: Api) -> None:
    body = api.pod()
    body["metadata"] = {"generateName": "x" * 100}
    assert api.create("pods", body).meta["name"] == "x" * 58 + "00000"


def test_existing_name_is_a_conflict(api: Api) -> None:
    api.create("pods", api.pod())
    refused = api.create("pods", api.pod())
    assert (refused.status, refused.reason) == (409, "AlreadyExists")
    assert refused.message == 'pods "web" already exists'
    assert refused.obj["details"] == {"name": "web", "kind": "pods"}


def test_dry_run_returns_the_object_and_stores_nothing(api: Api) -> None:
    before = api.server.revision
    created = api.create("pods", api.pod(), dryRun="All")
    assert created.status == 201
    assert created.meta["uid"]
    assert "resourceVersion" not in created.meta
    assert api.server.revision == before
    assert not api.exists("pods", "web")


def test_initial_namespaces_exist(api: Api) -> None:
    assert api.list("namespaces").names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    default = api.get("namespaces", "default").obj
    assert default["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default"}
    assert default["spec"] == {"finalizers": ["kubernetes"]}
    assert default["status"] == {"phase": "Active"}


@pytest.mark.parametrize(
    "body,text",
    [
        (
            b"{",
            "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error:",
        ),
        (b"[]", "json: cannot unmarshal array into Go value"),
        (b'{"kind":"Node","apiVersion":"v1"}', 'Node in version "v1" cannot be handled as a Pod:'),
        (
            b'{"kind":"Pod","apiVersion":"v2"}',
            'Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2" in scheme',
        ),
        (b'{"kind":7}', 'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":7})'),
        (
            b'{"metadata":{"name":"x","labels":{"a":1}}}',
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            b'{"spec":{"containers":{}}}',
            (
                'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal object into Go struct field '
                "PodSpec.spec.containers of type []v1.Container"
            ),
        ),
        (
            b'{"spec":{"containers":[{"env":[{"name":"A","value":true}]}]}}',
            "json: cannot unmarshal bool into Go struct field EnvVar.spec.containers.env.value of type string",
        ),
        (
            b'{"spec":{"terminationGracePeriodSeconds":"30"}}',
            "cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            b'{"spec":{"priority":1.5}}',
            "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            b'{"spec":{"priority":2147483648}}',
            "json: cannot unmarshal number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            b'{"spec":{"terminationGracePeriodSeconds":9223372036854775808}}',
            "number 9223372036854775808 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
        (
            b'{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"much"}}}]}}',
            "quantities must match the regular expression",
        ),
        (
            b'{"metadata":{"name":"x","namespace":"other"}}',
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
def test_malformed_body_is_a_bad_request_with_the_reason(api: Api, body: bytes, text: str) -> None:
    refused = api.send("POST", PODS, body)
    assert (refused.status, refused.reason) == (400, "BadRequest")
    assert text in refused.message


def test_namespace_of_an_object_that_is_not_namespaced_is_removed(api: Api) -> None:
    created = api.send("POST", "/api/v1/nodes", {"metadata": {"name": "x", "namespace": "other"}})
    assert (created.status, "namespace" in created.obj["metadata"]) == (201, False)


def test_new_object_with_a_resource_version_is_rejected(api: Api) -> None:
    body = api.pod()
    body["metadata"]["resourceVersion"] = "5"
    refused = api.create("pods", body)
    assert (refused.status, refused.message) == (500, "resourceVersion should not be set on objects to be created")


def test_nulls_and_fields_that_the_kind_does_not_have_are_dropped(api: Api) -> None:
    body = api.pod(nodeName=None, affinty={"typo": True})
    body["metadata"] |= {"managedFields": [{"manager": "x"}], "creationTimestamp": None}
    created = api.create("pods", body)
    assert created.status == 201
    assert "nodeName" not in created.obj["spec"]
    assert "affinty" not in created.obj["spec"]
    assert [entry["manager"] for entry in created.meta["managedFields"]] == ["unknown"]
