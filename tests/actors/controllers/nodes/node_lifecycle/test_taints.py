"""Tests of the taints and labels that node-lifecycle-controller maintains on nodes."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.nodes.node_lifecycle.taints import (
    has_taints,
    missing_labels,
    taint_patch,
    wanted_no_execute,
)
from kcm.protocols.nodes import NOT_READY, UNREACHABLE, NodeFacts, node_facts
from kcm.protocols.objects import Object


def facts(
    ready: str | None = "True", heartbeat: str = "h1", transitioned: str = "t1", uid: str = "u", *, taints: Any = ()
) -> NodeFacts:
    conditions: list[Object] = []
    if ready is not None:
        times = {"lastHeartbeatTime": heartbeat, "lastTransitionTime": transitioned}
        conditions.append({"type": "Ready", "status": ready, **times})
    spec = {"taints": [{"key": key, "effect": "NoExecute"} for key in taints]}
    return node_facts({"metadata": {"uid": uid}, "spec": spec, "status": {"conditions": conditions}})


CREATED, STAMP = "2026-01-01T00:00:00Z", "2027-01-15T08:00:00Z"
NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("ready", "has", "due", "spared", "wanted"),
    [
        ("True", (), False, False, ()),
        ("True", (UNREACHABLE, NOT_READY), True, False, ()),
        ("False", (), False, False, ()),
        ("False", (), True, False, (NOT_READY,)),
        ("False", (NOT_READY,), False, False, (NOT_READY,)),
        ("False", (UNREACHABLE,), False, False, (NOT_READY,)),  # at once, without its zone's queue
        ("Unknown", (), True, False, (UNREACHABLE,)),
        ("Unknown", (NOT_READY,), False, False, (UNREACHABLE,)),
        ("Unknown", (UNREACHABLE,), False, True, ()),
        ("Unknown", (), True, True, ()),
        (None, (UNREACHABLE,), True, False, (UNREACHABLE,)),  # without a condition nothing is changed
    ],
)
def test_no_execute_taint_follows_the_ready_condition(
    ready: str | None, has: tuple[str, ...], due: bool, spared: bool, wanted: tuple[str, ...]
) -> None:
    assert wanted_no_execute(facts(ready, taints=has), due=due, spared=spared) == set(wanted)


def test_own_taints_are_replaced_in_one_patch_and_others_kept() -> None:
    theirs = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    prefer = {"key": UNREACHABLE, "effect": "PreferNoSchedule"}
    old = {"key": NOT_READY, "effect": "NoExecute", "timeAdded": CREATED}
    node = {
        "metadata": {"resourceVersion": "7", "uid": "u"},
        "spec": {"taints": [old, theirs, prefer]},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
    patch = taint_patch(node, node_facts(node), frozenset({UNREACHABLE}), NOW)
    assert patch["metadata"]["resourceVersion"] == "7"
    assert patch["spec"]["taints"] == [
        theirs,
        prefer,
        {"key": UNREACHABLE, "effect": "NoSchedule", "timeAdded": STAMP},
        {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": STAMP},
    ]


def test_existing_taint_keeps_its_time_added() -> None:
    there = {"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": CREATED}
    node = {"spec": {"taints": [there]}, "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
    found = node_facts(node)
    assert not has_taints(found, frozenset({UNREACHABLE}))
    assert taint_patch(node, found, frozenset({UNREACHABLE}), NOW)["spec"]["taints"][0] == there


def test_list_is_removed_with_the_last_taint() -> None:
    node = {"spec": {"taints": [{"key": NOT_READY, "effect": "NoSchedule"}]}}
    assert taint_patch(node, node_facts(node), frozenset(), NOW)["spec"]["taints"] is None


OS, OLD_OS = "kubernetes.io/os", "beta.kubernetes.io/os"
ARCH, OLD_ARCH = "kubernetes.io/arch", "beta.kubernetes.io/arch"


@pytest.mark.parametrize(
    ("labels", "missing"),
    [
        (None, {}),
        ({"other": "x"}, {}),
        ({OLD_OS: "linux"}, {}),
        ({OS: "linux", ARCH: "arm64"}, {OLD_OS: "linux", OLD_ARCH: "arm64"}),
        ({OS: "linux", OLD_OS: "windows"}, {OLD_OS: "linux"}),
        ({OS: "linux", OLD_OS: "linux"}, {}),
        ({OS: ""}, {OLD_OS: ""}),
    ],
)
def test_deprecated_labels_are_copied_from_their_successors(
    labels: dict[str, str] | None, missing: dict[str, str]
) -> None:
    assert missing_labels({"metadata": {"labels": labels}}) == missing
