"""Tests of which Services a change of a pod enqueues."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.network.shared.selected_pods import SERVICE_FACTS, SERVICES_BY_SELECTOR, services_of_pod
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Bench
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import PODS, SERVICES
from tests.actors.controllers.network.behind import pod, service

BOTH = {"app": "web", "tier": "front"}


def concerned(before: Object | None, after: Object | None) -> list[str]:
    services = [
        service("web"),
        service("front", selector={"tier": "front"}),
        service("both", selector=BOTH),
        service("every", selector={}),
        service("none", selector=None),
    ]
    bench = Bench(
        {SERVICES: services, PODS: [] if after is None else [after]},
        indexes=(SERVICES_BY_SELECTOR,),
        facts=(SERVICE_FACTS,),
    )
    change = Change(
        type="DELETED" if after is None else "MODIFIED" if before else "ADDED",
        key="default/a",
        raw=encode_object(after or before or {}),
        previous=encode_object(before) if before else b"",
        controller=None,
    )
    return [key.partition("/")[2] for key in services_of_pod(change, bench.tables)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, pod("a"), ["every", "web"]),
        (None, pod("a", ips=()), []),
        (None, pod("a", labels=BOTH), ["both", "every", "front", "web"]),
        (pod("a"), None, ["every", "web"]),
        (pod("a", ready=False), pod("a"), ["every", "web"]),
        (pod("a", ips=()), pod("a"), ["every", "web"]),
        (pod("a"), pod("a", deleting=True), ["every", "web"]),
        (pod("a"), pod("a", phase="Succeeded"), ["every", "web"]),
        (pod("a", phase="Pending"), pod("a"), []),
        (pod("a"), pod("a", labels=BOTH), ["both", "front"]),
        (pod("a"), pod("a", labels=BOTH, ready=False), ["both", "every", "front", "web"]),
        (pod("a", labels=BOTH), pod("a", labels={}), ["both", "front", "web"]),
        (pod("a", ips=()), pod("a", ips=(), ready=False), []),
    ],
)
def test_services_of_a_changed_pod(before: Object | None, after: Object | None, expected: list[str]) -> None:
    assert concerned(before, after) == expected
