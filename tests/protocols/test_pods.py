"""Facts that tables derive from pods, and questions about them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from kcm.protocols.objects import Object
from kcm.protocols.pods import (
    DELETION_COST_ANNOTATION,
    PodFacts,
    is_active,
    is_available,
    is_terminal,
    is_terminating,
    pod_facts,
)
from kcm.protocols.times import parse_time

CREATED, READY = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
POD: Object = {
    "metadata": {
        "name": "web-1",
        "labels": {"app": "web"},
        "creationTimestamp": CREATED,
        "annotations": {DELETION_COST_ANNOTATION: "-5"},
        "finalizers": ["example.com/track"],
    },
    "spec": {
        "nodeName": "n1",
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "initContainers": [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}],
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True", "lastTransitionTime": READY},
        ],
        "containerStatuses": [{"name": "a", "restartCount": 2}, {"name": "b", "restartCount": 7}],
        "initContainerStatuses": [{"name": "setup", "restartCount": 9}, {"name": "proxy", "restartCount": 3}],
    },
}


def changed(**parts: Object) -> Object:
    """Return POD with these fields of its metadata, spec or status replaced."""
    return {part: {**POD[part], **parts.get(part, {})} for part in POD}


def test_facts_come_from_metadata_spec_and_status() -> None:
    assert pod_facts(POD) == PodFacts(
        labels={"app": "web"},
        phase="Running",
        node="n1",
        deleting=False,
        ready=True,
        created=parse_time(CREATED),
        restarts=7,
        sidecar_restarts=3,
        deletion_cost=-5,
        tolerations=b'[{"key":"gpu","operator":"Exists"}]',
        ready_changed=parse_time(READY),
        ips="",
        target="n1",
    )


def test_missing_fields_have_zero_values() -> None:
    assert pod_facts({}) == PodFacts(
        labels={},
        phase="",
        node="",
        deleting=False,
        ready=False,
        created=None,
        restarts=0,
        sidecar_restarts=0,
        deletion_cost=0,
        tolerations=b"",
    )


def test_null_counts_as_missing() -> None:
    nothing = {"metadata": {"labels": None, "creationTimestamp": None}, "spec": None, "status": {"conditions": None}}
    assert pod_facts(nothing) == pod_facts({})


def test_a_pod_that_is_not_ready_has_no_time_of_readiness() -> None:
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": READY}
    facts = pod_facts(changed(status={"conditions": [condition]}))
    assert (facts.ready, facts.ready_since, facts.ready_changed) == (False, None, parse_time(READY))


def test_addresses_are_those_of_all_families_or_the_only_one() -> None:
    both = {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}
    assert pod_facts(changed(status=both)).ips == "10.0.0.1,fd00::1"
    assert pod_facts(changed(status={"podIP": "10.0.0.1"})).ips == "10.0.0.1"


def test_restarts_of_plain_init_containers_and_missing_counts_are_zero() -> None:
    facts = pod_facts(
        {
            "spec": {"initContainers": [{"name": "setup"}]},
            "status": {
                "initContainerStatuses": [{"name": "setup", "restartCount": 9}],
                "containerStatuses": [{"name": "a"}],
            },
        }
    )
    assert (facts.restarts, facts.sidecar_restarts) == (0, 0)


DELETION_COSTS = {
    "0": 0,
    "10": 10,
    "-10": -10,
    "2147483647": 2147483647,
    "-2147483648": -2147483648,
    "2147483648": 0,
    "-2147483649": 0,
    "+10": 0,
    "010": 0,
    "00": 0,
    "": 0,
    "ten": 0,
    "1.5": 0,
    "١": 0,
    "9" * 5000: 0,
}


@pytest.mark.parametrize(("text", "cost"), DELETION_COSTS.items())
def test_an_invalid_deletion_cost_counts_as_zero(text: str, cost: int) -> None:
    assert pod_facts(changed(metadata={"annotations": {DELETION_COST_ANNOTATION: text}})).deletion_cost == cost


MALFORMED = [
    ({"metadata": []}, "metadata"),
    ({"spec": "x"}, "spec"),
    ({"status": 1}, "status"),
    ({"metadata": {"labels": ["app"]}}, "metadata.labels"),
    ({"metadata": {"labels": {"app": 1}}}, "metadata.labels"),
    ({"metadata": {"labels": {"app": {}}}}, "metadata.labels"),
    ({"metadata": {"annotations": "none"}}, "metadata.annotations"),
    ({"metadata": {"creationTimestamp": "yesterday"}}, "metadata.creationTimestamp"),
    ({"metadata": {"creationTimestamp": 17}}, "metadata.creationTimestamp"),
    ({"spec": {"nodeName": 3}}, "spec.nodeName"),
    ({"spec": {"initContainers": {"a": 1}}}, "spec.initContainers"),
    ({"status": {"phase": ["Running"]}}, "status.phase"),
    ({"status": {"conditions": {"Ready": True}}}, "status.conditions"),
    ({"status": {"conditions": ["Ready"]}}, "status.conditions"),
    (
        {"status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "x"}]}},
        r"status.conditions\[Ready\]",
    ),
    ({"status": {"containerStatuses": [None]}}, "status.containerStatuses"),
    ({"status": {"containerStatuses": [{"restartCount": "3"}]}}, "status.containerStatuses"),
]


@pytest.mark.parametrize(("pod", "field"), MALFORMED)
def test_a_malformed_pod_is_an_error_that_names_the_field(pod: Any, field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        pod_facts(pod)


PHASES = [
    # phase, deleting, active, terminating, terminal
    ("Running", False, True, False, False),
    ("Pending", False, True, False, False),
    ("", False, True, False, False),
    ("Running", True, False, True, False),
    ("Succeeded", False, False, False, True),
    ("Failed", False, False, False, True),
    ("Failed", True, False, False, True),
]


@pytest.mark.parametrize(("phase", "deleting", "active", "terminating", "terminal"), PHASES)
def test_a_pod_is_active_terminating_or_terminal(
    phase: str, deleting: bool, active: bool, terminating: bool, terminal: bool
) -> None:
    meta = {"deletionTimestamp": CREATED} if deleting else {}
    facts = pod_facts(changed(metadata=meta, status={"phase": phase}))
    assert (is_active(facts), is_terminating(facts), is_terminal(facts)) == (active, terminating, terminal)


AVAILABILITY = [
    # ready, ready for, minReadySeconds, available
    (False, 100, 0, False),
    (True, None, 0, True),
    (True, 0, 0, True),
    (True, None, 10, False),
    (True, 9, 10, False),
    (True, 10, 10, True),
    (True, 11, 10, True),
]


@pytest.mark.parametrize(("ready", "ready_for", "min_ready_seconds", "available"), AVAILABILITY)
def test_a_pod_is_available_once_it_has_been_ready_long_enough(
    ready: bool, ready_for: int | None, min_ready_seconds: int, available: bool
) -> None:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": READY if ready_for is not None else None}
    facts = pod_facts(changed(status={"conditions": [condition]}))
    now = parse_time(READY) + (ready_for or 0)
    assert is_available(facts, min_ready_seconds=min_ready_seconds, now=now) is available


def test_facts_are_small_and_share_what_is_equal() -> None:
    first, other = pod_facts(changed()), pod_facts(changed(metadata={"name": "web-2", "labels": {"app": "web"}}))
    assert first.labels is other.labels
    assert first.created is other.created
    assert sys.getsizeof(first) <= 152  # 8 bytes for each fact


def test_shared_labels_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        pod_facts(POD).labels["app"] = "other"  # type: ignore[index]
