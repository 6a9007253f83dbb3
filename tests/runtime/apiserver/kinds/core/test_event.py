"""Nodes, services, events and pods' binding: what is special about each."""

from __future__ import annotations

import pytest

from runtime.apiserver.kinds.built_in import BUILT_IN
from runtime.apiserver.schema.api_types import built_in_types


@pytest.mark.parametrize("definition", BUILT_IN, ids=lambda one: one.name)
def test_every_built_in_kind_has_types(definition):
    """Else a wrong type would reach code that trusts it."""
    assert built_in_types().of_kind(definition.group, definition.version, definition.kind)


@pytest.mark.parametrize("definition", BUILT_IN, ids=lambda one: one.name)
def test_every_built_in_kind_answers_to_an_empty_object(api, definition):
    """With an object, or with what is missing in it."""
    root = f"/apis/{definition.group}/{definition.version}" if definition.group else f"/api/{definition.version}"
    collection = (
        f"{root}/namespaces/default/{definition.plural}" if definition.namespaced else f"{root}/{definition.plural}"
    )
    created = api.send("POST", collection, {"metadata": {"name": "x.example.com", "generateName": "x"}})
    assert created.status in (201, 422)
    if created.status == 201:
        assert api.send("GET", f"{collection}/x.example.com").obj == created.obj
        assert api.send("PUT", f"{collection}/x.example.com", created.obj).obj == created.obj
        assert api.send("DELETE", f"{collection}/x.example.com").status == 200


def test_a_node_brings_its_status_and_keeps_it_from_updates(api):
    node = {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}}
    created = api.create("nodes", node).obj
    assert created["status"] == {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}
    updated = api.patch("nodes", "n", {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "8"}}}).obj
    assert updated["status"]["capacity"] == {"cpu": "4"}
    assert api.list("nodes", fieldSelector="spec.unschedulable=true").names == ["n"]


def test_a_node_keeps_its_pod_network(api):
    api.create("nodes", {"metadata": {"name": "n"}, "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}})
    unchanged = api.patch("nodes", "n", {"spec": {"podCIDRs": ["10.0.1.0/24"]}})
    assert unchanged.obj["spec"]["podCIDRs"] == ["10.0.0.0/24"]
    refused = api.patch("nodes", "n", {"spec": {"podCIDR": "10.0.1.0/24"}})
    detail = 'Forbidden: node updates may not change podCIDR except from "" to valid'
    assert refused.causes == {"spec.podCIDRs": detail}


@pytest.mark.parametrize("text", ["x", "10.0.0.0", "10.0.0.0/33", "/24"])
def test_a_pod_network_that_is_none_is_refused(api, text):
    refused = api.create("nodes", {"metadata": {"name": "n"}, "spec": {"podCIDR": text}})
    detail = f'Invalid value: "{text}": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)'
    assert (refused.status, refused.causes) == (422, {"spec.podCIDRs[0]": detail})


def test_the_taints_of_a_node_are_unique_by_key_and_effect(api):
    taint = {"key": "a", "effect": "NoExecute"}
    refused = api.create("nodes", {"metadata": {"name": "n"}, "spec": {"taints": [taint, taint]}})
    assert "taints must be unique by key and effect pair" in refused.causes["metadata.taints[1]"]


def service(name="s", **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_a_service_gets_an_address_of_its_own(api):
    first, second = (api.create("services", service(name)).obj["spec"] for name in ("a", "b"))
    assert first["clusterIP"].startswith("10.96.")
    assert first["clusterIPs"] == [first["clusterIP"]]
    assert first["clusterIP"] != second["clusterIP"]
    assert first["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (first["type"], first["sessionAffinity"], first["internalTrafficPolicy"]) == ("ClusterIP", "None", "Cluster")

    refused = api.create("services", service("c", clusterIP=first["clusterIP"]))
    assert refused.status == 422
    assert "provided IP is already allocated" in refused.message
    assert api.create("services", service("d", clusterIP="192.168.0.1")).status == 422
    assert api.create("services", service("e", clusterIP="None")).obj["spec"]["clusterIPs"] == ["None"]
    moved = api.patch("services", "a", {"spec": {"clusterIP": "10.96.9.9"}})
    assert moved.causes == {"spec.clusterIPs[0]": 'Invalid value: ["10.96.9.9"]: may not change once set'}


def test_a_service_by_another_name_needs_one(api):
    refused = api.create("services", service(type="ExternalName"))
    assert (refused.status, refused.causes) == (422, {"spec.externalName": "Required value"})
    assert api.create("services", service(type="ExternalName", externalName="example.com")).status == 201


def test_a_node_port_is_given_where_one_is_needed(api):
    port = api.create("services", service(type="NodePort")).obj["spec"]["ports"][0]
    assert port["nodePort"] in range(30000, 32768)


@pytest.mark.parametrize(
    "number, why",
    [
        (80, "Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"),
        (31000, "Invalid value: 31000: provided port is already allocated"),
    ],
)
def test_a_node_port_that_cannot_be_had_is_refused(api, number, why):
    asked = [{"port": 1, "nodePort": 31000}]
    assert api.create("services", service("first", type="NodePort", ports=asked)).status == 201
    ports = [{"port": 1, "name": "a"}, {"port": 2, "name": "b", "nodePort": number}]
    refused = api.create("services", service("second", type="NodePort", ports=ports))
    assert refused.status == 422
    assert refused.causes == {"spec.ports[1].nodePort": why}


EVENT = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default", "uid": "u"},
    "reason": "Started",
    "message": "Started container c",
    "source": {"component": "kubelet"},
    "count": 1,
    "type": "Normal",
}
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"


def test_both_versions_of_events_show_the_same_ones(api):
    api.create("events", EVENT)
    shown = api.send("GET", f"{NEW_EVENTS}/e").obj
    assert shown["apiVersion"] == "events.k8s.io/v1"
    assert (shown["note"], shown["regarding"]["name"], shown["deprecatedCount"]) == ("Started container c", "web", 1)
    assert "message" not in shown

    listed = api.send("GET", NEW_EVENTS, fieldSelector="regarding.name=web,reason=Started")
    assert listed.obj["kind"] == "EventList"
    assert listed.obj["items"] == [shown]

    new = {
        "metadata": {"name": "f"},
        "regarding": EVENT["involvedObject"],
        "note": "n",
        "reason": "Pulled",
        "action": "Pulling",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "example.com/me",
        "reportingInstance": "me-1",
    }
    refused = api.send("POST", NEW_EVENTS, {**new, "eventTime": None, "action": None})
    assert refused.causes == {"eventTime": "Required value"}
    created = api.send("POST", NEW_EVENTS, new)
    assert (created.status, created.obj["note"]) == (201, "n")
    assert api.get("events", "f").obj["message"] == "n"
    patched = api.send("PATCH", f"{NEW_EVENTS}/f", {"note": "m"}, type_="application/merge-patch+json")
    assert patched.obj["note"] == api.get("events", "f").obj["message"] == "m"


def test_a_watch_of_either_version_hears_of_all_events_in_its_form(api):
    old = api.watch("events", fieldSelector="involvedObject.kind=Pod,source=kubelet")
    api.create("events", EVENT)
    assert [event["object"]["apiVersion"] for event in old.events] == ["v1"]


@pytest.mark.parametrize(
    "selector,found",
    [
        ("involvedObject.name=web", True),
        ("involvedObject.uid=v", False),
        ("type=Normal,reason!=Failed", True),
        ("source=kubelet", True),
        ("reportingComponent=x", False),
    ],
)
def test_events_are_selected_by_what_they_are_about(api, selector, found):
    api.create("events", EVENT)
    assert bool(api.list("events", fieldSelector=selector).names) is found


def test_an_event_lives_for_an_hour_after_its_last_write(api):
    api.create("events", EVENT)
    api.create("events", {**EVENT, "metadata": {"name": "busy"}})
    listener = api.watch("events", resourceVersion=str(api.server.revision), timeoutSeconds="9000")
    api.advance(3000)
    api.patch("events", "busy", {"count": 2})
    api.advance(600)
    assert api.list("events").names == ["busy"]
    assert listener.told == [("MODIFIED", "busy"), ("DELETED", "e")]
    api.advance(3000)
    assert api.list("events").names == []


def test_an_event_belongs_into_the_namespace_of_what_it_is_about(api):
    refused = api.create("events", EVENT, namespace="kube-system")
    assert refused.causes == {"involvedObject.namespace": 'Invalid value: "default": does not match event.namespace'}


BINDING = {"target": {"kind": "Node", "name": "n1"}, "metadata": {"annotations": {"by": "scheduler"}}}


def test_a_binding_puts_a_pod_on_a_node(api):
    api.create("pods", api.pod())
    bound = api.send("POST", api.path("pods", "web", "binding"), BINDING)
    assert (bound.status, bound.obj["status"]) == (201, "Success")
    pod = api.get("pods", "web").obj
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"] == {"by": "scheduler"}
    (condition,) = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")

    again = api.send("POST", api.path("pods", "web", "binding"), BINDING)
    assert (again.status, again.message) == (
        409,
        'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n1"',
    )


@pytest.mark.parametrize(
    "spec,body,status,text",
    [
        ({}, {"target": {"kind": "Pod", "name": "x"}}, 422, 'Unsupported value: "Pod"'),
        ({}, {"target": {}}, 422, "target.name: Required value"),
        ({}, {**BINDING, "metadata": {"name": "other"}}, 400, "name in URL does not match name in Binding object"),
        ({}, {**BINDING, "metadata": {"uid": "other"}}, 409, "Precondition failed"),
        ({"schedulingGates": [{"name": "g"}]}, BINDING, 409, "pod web has non-empty .spec.schedulingGates"),
    ],
)
def test_a_pod_that_cannot_be_bound_is_not(api, spec, body, status, text):
    api.create("pods", api.pod(**spec))
    refused = api.send("POST", api.path("pods", "web", "binding"), body)
    assert refused.status == status
    assert text in refused.message
    assert "nodeName" not in api.get("pods", "web").obj["spec"]


def test_a_gated_pod_says_that_it_waits(api):
    status = api.create("pods", api.pod(schedulingGates=[{"name": "g"}])).obj["status"]
    assert status["conditions"][0]["reason"] == "SchedulingGated"


def test_an_eviction_deletes_the_pod(api):
    api.create("pods", api.pod(nodeName="n"))
    body = {"metadata": {"name": "web"}, "deleteOptions": {"gracePeriodSeconds": 3}}
    assert api.send("POST", api.path("pods", "web", "eviction"), body).status == 201
    assert api.get("pods", "web").meta["deletionGracePeriodSeconds"] == 3
    assert api.send("POST", api.path("pods", "gone", "eviction"), {}).status == 404
