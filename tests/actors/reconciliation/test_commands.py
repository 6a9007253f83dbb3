"""Construction of commands."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.reconciliation import (
    Reconciliation,
    Watch,
    apply,
    create,
    delete,
    get_live,
    itself,
    must,
    must_object,
    patch,
    record,
    update,
)
from kcm.actors.reconciliation.commands import delete_all
from kcm.actors.reconciliation.specs import ControllerSpec, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.messages.cloud import ListRoutes
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Fetch, List, Patch, PatchType
from kcm.protocols.messages.outcomes import Conflict, Forbidden, Unknown
from kcm.protocols.objects import Key, Object, decode_object, name_of
from kcm.protocols.resources import DEPLOYMENTS, NODES, PODS, Resource
from kcm.runtime.tables.tables import Tables

WEBSITES = Resource(group="example.com", version="v1", plural="websites", kind="Website")
CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)


def shop(**fields: Any) -> Object:
    return {"metadata": {"name": "shop", "namespace": "default", "resourceVersion": "7"}, **fields}


def test_object_without_a_namespace_is_refused_at_construction() -> None:
    with pytest.raises(ValueError, match="a Pod is made in a namespace, and none is given for 'web'"):
        create(PODS, {"metadata": {"name": "web"}})
    assert create(PODS, {"metadata": {"name": "web"}}, namespace="d").namespace == "d"
    assert create(NODES, {"metadata": {"name": "n"}}).namespace == ""
    with pytest.raises(ValueError, match="a Node is in no namespace, and 'd' is given for 'n'"):
        create(NODES, {"metadata": {"name": "n"}}, namespace="d")


def test_undeclared_table_is_named_in_the_error() -> None:
    with pytest.raises(KeyError, match="v1/pods is neither watched nor read by this controller"):
        Tables({})[PODS]


# Fields that follow from the resource.


@pytest.mark.parametrize(
    "command",
    [
        create(WEBSITES, shop()),
        update(WEBSITES, shop()),
        update(WEBSITES, shop(kind="Website")),
        update(WEBSITES, shop(), subresource="status"),
        apply(WEBSITES, shop()),
    ],
)
def test_kind_and_api_version_omitted_by_tables_are_restored(command: Any) -> None:
    body = decode_object(command.body)
    assert (body["apiVersion"], body["kind"]) == ("example.com/v1", "Website")


def test_body_of_a_subresource_with_its_own_kind_is_unchanged() -> None:
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", **shop(spec={"replicas": 1})}
    assert decode_object(update(DEPLOYMENTS, scale, subresource="scale").body) == scale


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"kind": "Pod"},
            "Pod of no apiVersion is no Website of example.com/v1, as websites.example.com are",
        ),
        (
            {"kind": "Website", "apiVersion": "example.com/v2"},
            "Website of example.com/v2 is no Website of example.com/v1, as websites.example.com are",
        ),
    ],
)
def test_object_of_another_kind_is_refused_at_the_call(fields: Object, error: str) -> None:
    for word in (create, update):
        with pytest.raises(ValueError, match=error):
            word(WEBSITES, shop(**fields))


class Shops:
    """Reconciler that writes each shop, and a copy of it, by every function that writes."""

    def __init__(self, *, tables: Tables) -> None:
        self._websites = tables[WEBSITES]

    def reconcile(self, key: Key) -> Reconciliation:
        website = self._websites.get(key)
        if website is None or website.get("status"):
            return None
        if name_of(website) == "shop":
            yield from must(create(WEBSITES, {"metadata": {"name": "copy", "namespace": "default"}}))
        website = yield from must_object(update(WEBSITES, {**website, "spec": {"open": True}}))
        website = yield from must_object(patch(WEBSITES, key, {"spec": {"since": "today"}}))
        yield from must(update(WEBSITES, {**website, "status": {"open": True}}, subresource="status"))
        return None


SHOPS = ControllerSpec(
    name="shops",
    queues=(Queue(watches=(Watch(WEBSITES, to=itself),)),),
    build=lambda context: Shops(tables=context.tables),
)
CRD = {
    "metadata": {"name": "websites.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "websites", "singular": "website", "kind": "Website", "listKind": "WebsiteList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


def test_custom_object_is_written_without_naming_its_kind(cluster: SimulatedCluster) -> None:
    # A server has no types for custom resources, so it refuses an object without kind.
    cluster.create(CRDS, CRD)
    cluster.manager(controllers=[SHOPS])
    cluster.create(WEBSITES, {"metadata": {"name": "shop"}})
    cluster.run_for(20.0)
    assert {
        name_of(website): (website.get("spec"), website.get("status")) for website in cluster.list(WEBSITES)
    } == dict.fromkeys(("shop", "copy"), ({"open": True, "since": "today"}, {"open": True}))


# Keys.


@pytest.mark.parametrize(
    ("resource", "key", "error"),
    [
        (PODS, {}, r"a key of pods is text, not \{\}"),
        (PODS, None, "a key of pods is text, not None"),
        (PODS, ("d", "a"), r"a key of pods is text, not \('d', 'a'\)"),
        (PODS, "", "'' is no key of pods: it is 'namespace/name'"),
        (PODS, "a", "'a' is no key of pods: it is 'namespace/name'"),
        (PODS, "d/", "'d/' is no key of pods: it is 'namespace/name'"),
        (PODS, "c/d/a", "'c/d/a' is no key of pods: it is 'namespace/name'"),
        (NODES, "d/a", "'d/a' is no key of nodes: it is 'name'"),
    ],
)
def test_invalid_key_is_refused_at_construction(resource: Resource, key: Any, error: str) -> None:
    for word in (delete, get_live, lambda *of: patch(*of, {})):
        with pytest.raises((TypeError, ValueError), match=error):
            word(resource, key)
    with pytest.raises(ValueError, match=r"'' is no key of websites\.example\.com"):
        update(WEBSITES, {"spec": {}})


def test_a_deletion_has_both_preconditions() -> None:
    assert delete(PODS, "d/a", uid="u", resource_version="7") == Delete("v1/pods", "d/a", uid="u", resource_version="7")


# Patches.


def test_default_patch_type_is_one_that_every_resource_accepts() -> None:
    assert patch(WEBSITES, "d/a", {"spec": {}}).patch_type == PatchType.MERGE
    assert patch(PODS, "d/a", {"spec": {}}).patch_type == PatchType.MERGE
    assert patch(PODS, "d/a", [{"op": "remove", "path": "/spec"}]).patch_type == PatchType.JSON
    assert patch(PODS, "d/a", {}, patch_type=PatchType.STRATEGIC).patch_type == PatchType.STRATEGIC


@pytest.mark.parametrize(
    ("body", "options", "error"),
    [
        ([], {"patch_type": PatchType.MERGE}, "a patch of type application/merge-patch.json is a map"),
        ({}, {"patch_type": PatchType.JSON}, "a patch of type application/json-patch.json is a list of operations"),
        ({}, {"patch_type": PatchType.APPLY}, r"a patch of type APPLY is made by apply\(resource, obj\)"),
    ],
)
def test_a_patch_of_another_form_than_its_type_is_refused(body: Any, options: Any, error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        patch(PODS, "d/a", body, **options)


# Events, and failures.


def test_an_event_is_normal_or_a_warning() -> None:
    with pytest.raises(ValueError, match="the type of an event is one of Normal, Warning, not 'Info'"):
        record(WEBSITES, shop(), "Info", "Made", "made it")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (update(WEBSITES, shop(), subresource="status"), "update websites.example.com default/shop status"),
        (create(WEBSITES, shop()), "create websites.example.com default/shop"),
        (Create("v1/pods", "d", b'{"metadata":{"generateName":"web-"}}'), "create pods d/web-"),
        (Create("v1/pods", "d", b"{}", "web", "binding"), "create pods d/web binding"),
        (Create("v1/pods", "d", b"nonsense"), "create pods d/"),
        (delete(NODES, "n1"), "delete nodes n1"),
        (Patch("apps/v1/deployments", "d/web", b"{}"), "patch deployments.apps d/web"),
        (get_live(PODS, "d/a"), "get pods d/a"),
        (List("v1/pods", "d"), "list pods in d"),
        (List("v1/pods"), "list pods"),
        (delete_all(PODS, "d"), "delete all pods in d"),
        (Fetch("/apis"), "get /apis"),
        (ListRoutes("kubernetes"), "cloud call ListRoutes"),
    ],
)
def test_command_error_names_the_failed_command(command: Command, text: str) -> None:
    assert str(CommandError(command, Conflict("newer"))) == f"{text}: Conflict: newer"
    assert str(CommandError(command, Unknown())) == f"{text}: Unknown"
    assert CommandError(command, Forbidden("no")).failure.message == "no"
