"""Tests of the fields of Services and nodes that affect load balancers, with upstream's tables."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.cloud.service_lb.load_balancers import (
    FINALIZER,
    format_node_names,
    is_target,
    needs_cleanup,
    needs_update,
    targets_of,
    wants_load_balancer,
)
from kcm.actors.controllers.cloud.service_lb.spec import SPEC
from kcm.protocols.nodes import EXCLUDE_BALANCERS, LEAVING, node_facts
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import NODES
from kcm.runtime.tables.entry import Entry
from kcm.runtime.tables.interests import Transition, meets
from kcm.runtime.tables.table import Table


def service(**spec: Any) -> Object:
    ports = [{"port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080}]
    spec = {"type": "LoadBalancer", "ports": ports, "sessionAffinity": "None", "ipFamilies": ["IPv4"], **spec}
    return {"metadata": {"name": "web", "namespace": "default", "uid": "u", "annotations": {"a": "1"}}, "spec": spec}


def changed(**port: Any) -> Object:
    """Return a copy of the Service with changes to its first port."""
    made = service()
    made["spec"]["ports"][0] |= port
    return made


def meta(**changes: Any) -> Object:
    made = service()
    made["metadata"] |= changes
    return made


OTHERS = [{"port": port} for port in (8001, 9001, 10001)]


@pytest.mark.parametrize(
    ("old", "new", "needed"),
    [
        (service(), service(), False),
        (service(), service(type="ClusterIP"), True),
        (service(type="ClusterIP"), service(), True),
        (service(type="ClusterIP"), service(type="NodePort"), False),
        (service(loadBalancerClass="a/b"), service(loadBalancerClass="a/b", loadBalancerIP="1.2.3.4"), False),
        (service(), service(loadBalancerClass="a/b"), True),
        (service(), service(ports=OTHERS), True),
        (service(ports=OTHERS), service(ports=OTHERS[::-1]), True),
        (service(), changed(name="http"), True),
        (service(), changed(protocol="UDP"), True),
        (service(), changed(nodePort=30081), True),
        (service(), changed(targetPort="dns"), True),
        (service(), changed(targetPort=8081), True),
        (service(), changed(appProtocol="http"), True),
        (changed(appProtocol="http"), changed(appProtocol="tcp"), True),
        (service(externalIPs=["192.0.2.1"]), service(externalIPs=["192.0.2.1", "192.0.2.2"]), True),
        (service(externalIPs=["192.0.2.1"]), service(externalIPs=["192.0.2.2"]), True),
        (service(), service(externalIPs=[]), False),
        (service(), service(loadBalancerSourceRanges=["10.0.0.0/8"]), True),
        (service(), service(loadBalancerIP="192.0.2.9"), True),
        (service(), service(sessionAffinity="ClientIP"), True),
        (service(), service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 9}}), True),
        (service(), service(externalTrafficPolicy="Local"), True),
        (service(), service(healthCheckNodePort=30123), True),
        (service(), service(ipFamilies=["IPv4", "IPv6"]), True),
        (service(ipFamilies=["IPv4", "IPv6"]), service(), True),
        (service(), service(selector={"app": "web"}), False),
        (service(), meta(uid="another"), True),
        (service(), meta(annotations={"a": "2"}), True),
        (service(), meta(labels={"app": "web"}), False),
        (service(), meta(resourceVersion="7"), False),
    ],
)
def test_change_of_service_requires_an_update(old: Object, new: Object, needed: bool) -> None:
    assert needs_update(old, new) == needed


@pytest.mark.parametrize(
    ("finalizers", "kind", "deleting", "needed"),
    [
        ([], "LoadBalancer", True, False),
        ([], "ClusterIP", False, False),
        ([FINALIZER], "LoadBalancer", False, False),
        ([FINALIZER], "ClusterIP", False, True),
        ([FINALIZER], "LoadBalancer", True, True),
        (["other/one"], "LoadBalancer", True, False),
    ],
)
def test_service_needs_cleanup_by_finalizer_type_and_deletion(
    finalizers: list[str], kind: str, deleting: bool, needed: bool
) -> None:
    made = service(type=kind)
    made["metadata"]["finalizers"] = finalizers
    if deleting:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert needs_cleanup(made) == needed


def test_service_with_load_balancer_class_is_ignored() -> None:
    assert wants_load_balancer(service())
    assert not wants_load_balancer(service(loadBalancerClass="example.com/other"))
    assert not wants_load_balancer(service(loadBalancerClass=""))
    assert not wants_load_balancer({})


def node(
    name: str = "n",
    *,
    excluded: str | None = None,
    taint: str = "",
    ready: str | None = "True",
    provider: str = "p",
    deleting: bool = False,
    label: str = "",
) -> Object:
    made: Object = {"metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": {}}, "spec": {}}
    if excluded is not None:
        made["metadata"]["labels"][EXCLUDE_BALANCERS] = excluded
    if label:
        made["metadata"]["labels"][label] = ""
    if deleting:
        made["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if provider:
        made["spec"]["providerID"] = provider
    if taint:
        made["spec"]["taints"] = [{"key": taint, "effect": "NoSchedule"}]
    if ready is not None:
        made["status"] = {"conditions": [{"type": "Ready", "status": ready}]}
    return made


@pytest.mark.parametrize(
    ("made", "sent_to"),
    [
        (node(), True),
        (node(ready="False"), True),
        (node(ready=None), True),
        (node(provider=""), True),
        (node(taint="other"), True),
        (node(taint=LEAVING), False),
        (node(deleting=True), False),
        (node(excluded=""), False),
        (node(excluded="true"), False),
        (node(excluded="1"), False),
        (node(excluded="yes"), False),
        (node(excluded="false"), True),
        (node(excluded="F"), True),
        (node(excluded="0"), True),
    ],
)
def test_node_is_a_target_of_load_balancers(made: Object, sent_to: bool) -> None:
    assert is_target(node_facts(made)) == sent_to


@pytest.mark.parametrize(
    ("old", "new", "looked_at"),
    [
        (node(), node(), False),
        (node(), node(excluded=""), True),
        (node(excluded=""), node(), True),
        (node(excluded=""), node(excluded=""), False),
        (node(excluded=""), node(excluded="yes"), False),
        (node(), node(taint="other"), False),
        (node(), node(taint=LEAVING), False),
        (node(taint=LEAVING), node(), False),
        (node(), node(label="other"), False),
        (node(ready="False"), node(), False),
        (node(ready=None), node(ready="False"), False),
        (node(), node(deleting=True), False),
        (node(provider=""), node(), True),
        (node(), node(provider=""), True),
        (node(), node(provider="q"), True),
        (node(taint=LEAVING), node(taint=LEAVING, excluded=""), True),
        (node(taint=LEAVING, provider=""), node(taint=LEAVING), True),
        (node(deleting=True), node(deleting=True, excluded=""), True),
    ],
)
def test_relevant_node_changes_are_detected(old: Object, new: Object, looked_at: bool) -> None:
    [watch] = SPEC.queues[1].watches
    before, after = _entry(old), _entry(new)
    assert meets(Transition("MODIFIED", after, before), watch.interest) == looked_at
    assert meets(Transition("ADDED", after, None), watch.interest)
    assert meets(Transition("DELETED", after, after), watch.interest)


def _entry(obj: Object) -> Entry:
    return Table(NODES, derive=node_facts).make_entry(obj, encode_object(obj))


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ([node("a"), node("b")], [node("b"), node("a")], True),
        ([node("a")], [node("a"), node("b")], False),
        ([node("a"), node("b")], [node("a"), node("c")], False),
        ([node("a")], [node("a", provider="q")], False),
        ([node("a")], [node("a", ready="False", label="other")], True),
        ([node("a")], [node("a"), node("b", excluded="")], True),
    ],
)
def test_sets_of_hosts_are_compared(old: list[Object], new: list[Object], same: bool) -> None:
    assert (targets_of(map(_entry, old)) == targets_of(map(_entry, new))) == same


def test_node_names_are_formatted_as_upstream() -> None:
    names = [f"n{number:02}" for number in range(23)]
    assert format_node_names(["b", "a"]) == "[a b]"
    assert format_node_names([]) == "[]"
    assert format_node_names(names) == f"[{' '.join(names[:20])} <3 more>]"
