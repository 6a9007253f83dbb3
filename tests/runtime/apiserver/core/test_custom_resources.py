"""CustomResourceDefinitions and their objects."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.protocols.objects import Object
from tests.runtime.apiserver.conftest import Api

THINGS = "/apis/example.com/v1/namespaces/default/things"


SCHEMA = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def crd(**spec: Any) -> Object:
    version = {"name": "v1", "served": True, "storage": True, "schema": SCHEMA, "subresources": {"status": {}}}
    defaults = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"]},
        "versions": [version],
    }
    return {"metadata": {"name": "things.example.com"}, "spec": {**defaults, **spec}}


def thing(**fields: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, **fields}


@pytest.fixture
def things(api: Api) -> Api:
    api.create("customresourcedefinitions", crd())
    return api


def test_a_definition_is_established_at_once(things: Api) -> None:
    definition = things.get("customresourcedefinitions", "things.example.com").obj
    conditions = {condition["type"]: condition["status"] for condition in definition["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert definition["status"]["storedVersions"] == ["v1"]
    assert definition["spec"]["names"]["listKind"] == "ThingList"
    served = things.server.registry.find("example.com", "v1", "things")
    assert (served.singular, served.short_names, served.subresources) == ("thing", ("th",), ("status",))


def test_custom_objects_are_stored_with_any_fields(things: Api) -> None:
    body = thing(spec={"any": [1, {"thing": None}]}, status={"ignored": True})
    created = things.send("POST", THINGS, body)
    assert created.status == 201
    assert (created.obj["kind"], created.obj["apiVersion"]) == ("Thing", "example.com/v1")
    assert created.obj["spec"] == body["spec"]
    assert "status" not in created.obj
    assert created.meta["generation"] == 1
    assert things.send("GET", THINGS).obj["kind"] == "ThingList"


def test_status_of_a_custom_object_has_its_own_path(things: Api) -> None:
    things.send("POST", THINGS, thing(spec={"a": 1}))
    patch = {"metadata": {"labels": {"a": "b"}}, "spec": {"a": 2}, "status": {"ready": True}}
    written = things.send("PATCH", f"{THINGS}/t/status", patch, type_="application/merge-patch+json").obj
    assert (written["spec"], written["status"]) == ({"a": 1}, {"ready": True})
    assert "labels" not in written["metadata"]
    changed = things.send("PATCH", f"{THINGS}/t", {"spec": {"a": 3}}, type_="application/merge-patch+json")
    assert changed.meta["generation"] == 2
    refused = things.send("PATCH", f"{THINGS}/t", {}, type_="application/strategic-merge-patch+json")
    assert refused.status == 415
    assert refused.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


def test_metadata_of_a_custom_object_is_validated(things: Api) -> None:
    assert things.send("POST", THINGS, thing(metadata={"name": "t", "labels": []})).status == 400
    assert things.send("POST", THINGS, thing(metadata={"name": "a/b"})).status == 422
    nameless = things.send("POST", THINGS, thing(kind=None))
    assert (nameless.status, "Object 'Kind' is missing in" in nameless.message) == (400, True)


def test_deleting_a_definition_deletes_its_objects_and_ends_their_watches(things: Api) -> None:
    things.send("POST", THINGS, thing())
    listener = things.watch("things")
    assert things.delete("customresourcedefinitions", "things.example.com").status == 200
    assert listener.seen == [("ADDED", "t"), ("DELETED", "t")]
    assert listener.ended is not None
    assert listener.ended.status == 200
    assert things.send("GET", f"{THINGS}/t").status == 404
    assert "could not find the requested resource" in things.send("GET", THINGS).message
    things.create("customresourcedefinitions", crd())
    assert things.send("GET", THINGS).names == []


def test_deleting_an_unserved_definition_deletes_its_objects(things: Api) -> None:
    things.send("POST", THINGS, thing())
    version = {"name": "v1", "served": False, "storage": True, "schema": SCHEMA}
    things.patch("customresourcedefinitions", "things.example.com", {"spec": {"versions": [version]}})
    assert things.send("GET", THINGS).status == 404
    assert things.delete("customresourcedefinitions", "things.example.com").status == 200
    things.create("customresourcedefinitions", crd())
    assert things.send("GET", THINGS).names == []


def test_definition_is_kept_until_its_objects_have_no_finalizers(things: Api) -> None:
    things.send("POST", THINGS, thing(metadata={"name": "held", "finalizers": ["example.com/hold"]}))
    things.send("POST", THINGS, thing(metadata={"name": "free"}))
    assert things.delete("customresourcedefinitions", "things.example.com").status == 200
    definition = things.get("customresourcedefinitions", "things.example.com").obj
    assert definition["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(things, "things.example.com")["Terminating"][0] == "True"
    assert things.send("GET", THINGS).names == ["held"]
    refused = things.send("POST", THINGS, thing(metadata={"name": "new"}))
    assert (refused.status, refused.reason) == (403, "Forbidden")
    assert "create not allowed while custom resource definition is terminating" in refused.message
    things.send("PATCH", f"{THINGS}/held", {"metadata": {"finalizers": None}}, type_="application/merge-patch+json")
    assert not things.exists("customresourcedefinitions", "things.example.com")
    assert things.send("GET", THINGS).status == 404


def test_every_version_lists_all_objects(api: Api) -> None:
    versions = [
        {"name": "v1", "served": True, "storage": True, "schema": SCHEMA},
        {"name": "v2", "served": True, "storage": False, "schema": SCHEMA},
    ]
    api.create("customresourcedefinitions", crd(versions=versions))
    newer = THINGS.replace("v1", "v2")
    api.send("POST", newer, thing(apiVersion="example.com/v2", spec={}))
    assert api.send("GET", f"{THINGS}/t").obj["apiVersion"] == "example.com/v1"
    assert api.send("GET", f"{newer}/t").obj["apiVersion"] == "example.com/v2"
    api.patch("customresourcedefinitions", "things.example.com", {"spec": {"versions": versions[:1]}})
    assert api.send("GET", f"{newer}/t").status == 404


@pytest.mark.parametrize(
    "spec,field",
    [
        ({"group": ""}, "spec.group"),
        ({"group": "nodots"}, "spec.group"),
        ({"names": {"plural": "others", "kind": "Thing"}}, "metadata.name"),
        ({"names": {"plural": "things"}}, "spec.names.kind"),
        ({"scope": "Everywhere"}, "spec.scope"),
        ({"versions": []}, "spec.versions"),
        ({"versions": [{"name": "v1", "served": True, "storage": False, "schema": SCHEMA}]}, "spec.versions"),
        ({"versions": [{"name": "v1", "served": True, "storage": True}]}, "spec.versions[0].schema.openAPIV3Schema"),
    ],
)
def test_invalid_definition_is_rejected(api: Api, spec: Object, field: str) -> None:
    refused = api.create("customresourcedefinitions", crd(**spec))
    assert refused.status == 422
    assert field in refused.causes


def test_scope_of_a_definition_is_immutable(things: Api) -> None:
    refused = things.patch("customresourcedefinitions", "things.example.com", {"spec": {"scope": "Cluster"}})
    assert refused.causes == {"spec.scope": 'Invalid value: "Cluster": field is immutable'}


def test_custom_objects_may_be_owners_and_dependents(things: Api) -> None:
    owner = things.send("POST", THINGS, thing()).obj
    things.create("pods", things.owned(things.pod(), owner))
    things.send("DELETE", f"{THINGS}/t")
    assert not things.exists("pods", "web")


def leases(**fields: Any) -> Object:
    """Return a definition with the group and names of Leases."""
    names = {"plural": "leases", "kind": "Lease"}
    return {
        **crd(group="coordination.k8s.io", names=names),
        "metadata": {"name": "leases.coordination.k8s.io", **fields},
    }


def conditions(api: Api, name: str) -> Object:
    found = api.get("customresourcedefinitions", name).obj["status"]["conditions"]
    return {condition["type"]: (condition["status"], condition["reason"], condition["message"]) for condition in found}


@pytest.mark.parametrize(
    "annotations,type_",
    [({}, "Required value"), ({"api-approved.kubernetes.io": "by me"}, "Invalid value")],
)
def test_a_group_of_kubernetes_needs_an_approval(api: Api, annotations: Object, type_: str) -> None:
    refused = api.create("customresourcedefinitions", leases(annotations=annotations))
    assert refused.status == 422
    assert refused.causes["metadata.annotations[api-approved.kubernetes.io]"].startswith(type_)
    assert "protected groups must have approval annotation" in refused.message


@pytest.mark.parametrize("word", ["unapproved, a test", "https://github.com/kubernetes/kubernetes/pull/1"])
def test_definition_of_a_built_in_resource_does_not_affect_it(api: Api, word: str) -> None:
    api.create("leases", {"metadata": {"name": "l"}})
    built_in = api.server.registry.find("coordination.k8s.io", "v1", "leases")
    assert (
        api.create("customresourcedefinitions", leases(annotations={"api-approved.kubernetes.io": word})).status == 201
    )
    assert api.server.registry.find("coordination.k8s.io", "v1", "leases") is built_in
    assert conditions(api, "leases.coordination.k8s.io") == {
        "NamesAccepted": ("False", "ListKindConflict", '"LeaseList" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert api.delete("customresourcedefinitions", "leases.coordination.k8s.io").status == 200
    assert api.list("leases").names == ["l"]
    assert api.create("leases", {"metadata": {"name": "m"}}).status == 201


def test_definition_with_the_kind_of_another_is_not_accepted(things: Api) -> None:
    names = {"plural": "others", "kind": "Thing", "listKind": "OtherList"}
    other = {**crd(names=names), "metadata": {"name": "others.example.com"}}
    things.create("customresourcedefinitions", other)
    assert conditions(things, "others.example.com")["NamesAccepted"] == (
        "False",
        "KindConflict",
        '"Thing" is already in use',
    )
    assert things.send("GET", THINGS.replace("things", "others")).status == 404
    things.delete("customresourcedefinitions", "things.example.com")
    assert conditions(things, "others.example.com")["Established"][0] == "True"
    assert things.send("GET", THINGS.replace("things", "others")).status == 200


def test_definition_keeps_its_accepted_names_if_a_new_name_conflicts(things: Api) -> None:
    other = {
        **crd(names={"plural": "others", "kind": "Other", "shortNames": ["ot"]}),
        "metadata": {"name": "others.example.com"},
    }
    things.create("customresourcedefinitions", other)
    things.patch("customresourcedefinitions", "others.example.com", {"spec": {"names": {"shortNames": ["th"]}}})
    assert conditions(things, "others.example.com")["NamesAccepted"][1] == "ShortNamesConflict"
    assert conditions(things, "others.example.com")["Established"][0] == "True"
    assert things.server.registry.find("example.com", "v1", "others").short_names == ("ot",)
