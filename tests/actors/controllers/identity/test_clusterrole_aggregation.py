"""ClusterRole aggregation: upstream's cases, failures, and a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/clusterroleaggregation/clusterroleaggregation_controller_test.go.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcm.actors.controllers.identity.clusterrole_aggregation import SPEC, ClusterRoleAggregation
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, Driven, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Patch, PatchType
from kcm.protocols.messages.outcomes import Conflict
from kcm.protocols.objects import Object
from kcm.protocols.resources import CLUSTER_ROLES
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.tables.lister import UnreadableError

HAMMER: list[Object] = [
    {"verbs": ["hammer"], "resources": ["nails"]},
    {"verbs": ["hammer"], "resources": ["wedges"]},
]
CHISEL: list[Object] = [{"verbs": ["chisel"], "resources": ["mortises"]}]
SAW: list[Object] = [{"verbs": ["saw"], "resources": ["boards"]}]
BAR, NOT_BAR = {"foo": "bar"}, {"foo": "not-bar"}


def role(name: str, labels: dict[str, str], rules: list[Object] | None) -> Object:
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


def combined(selectors: list[dict[str, str]], *rules: list[Object], **more: Any) -> Object:
    rule = {"clusterRoleSelectors": [{"matchLabels": labels} for labels in selectors]}
    whole = role("combined", {}, [rule for some in rules for rule in some] or None)
    return {**whole, "aggregationRule": rule, **more}


def sync(*roles: Object, raises: type[Exception] | None = None, answer: Any = None, unreadable: str = "") -> Driven:
    bench = Bench({CLUSTER_ROLES: roles}, indexes=SPEC.indexes)
    if unreadable:
        bench.spoil(CLUSTER_ROLES, unreadable)
    reconciler = ClusterRoleAggregation(tables=bench.tables, log=quiet_log())
    return drive(reconciler, "combined", answer or bench.accept, tables=bench.tables, raises=raises)


CASES = {
    "remove dead rules": ([role("hammer", BAR, HAMMER), combined([BAR], SAW)], HAMMER),
    "strip rules": ([role("hammer", NOT_BAR, HAMMER), combined([BAR], HAMMER)], []),
    "select properly and put in order": (
        [role("hammer", BAR, HAMMER), role("chisel", BAR, CHISEL), role("saw", NOT_BAR, SAW), combined([BAR])],
        [*CHISEL, *HAMMER],
    ),
    "several selectors, one after the other": (
        [
            role("hammer", BAR, HAMMER),
            role("chisel", BAR, CHISEL),
            role("saw", NOT_BAR, SAW),
            combined([BAR, NOT_BAR]),
        ],
        [*CHISEL, *HAMMER, *SAW],
    ),
    "the selectors' order goes before the names'": (
        [role("hammer", BAR, HAMMER), role("chisel", NOT_BAR, CHISEL), combined([BAR, NOT_BAR])],
        [*HAMMER, *CHISEL],
    ),
    "no duplicates": (
        [
            role("hammer", BAR, HAMMER),
            role("chisel", BAR, CHISEL),
            role("saw", BAR, SAW),
            role("other-saw", NOT_BAR, SAW),
            combined([BAR, NOT_BAR]),
        ],
        [*CHISEL, *HAMMER, *SAW],
    ),
    "no difference": ([role("hammer", BAR, HAMMER), combined([BAR], HAMMER)], None),
    "an empty list is none": (
        [role("saw", BAR, SAW), combined([BAR], [{**SAW[0], "apiGroups": [], "resourceNames": None}])],
        None,
    ),
    "not itself": ([{**combined([BAR], SAW), "metadata": {"name": "combined", "labels": BAR}}], []),
    "no rules where none are": ([combined([BAR], rules=None)], None),
    "all, where the selector is empty": (
        [role("saw", {}, SAW), {**combined([]), "aggregationRule": {"clusterRoleSelectors": [{}]}}],
        SAW,
    ),
    "no selectors": ([role("saw", {}, SAW), combined([], SAW)], []),
    "the order of values counts": (
        [role("saw", BAR, [{"verbs": ["a", "b"]}]), combined([BAR], [{"verbs": ["b", "a"]}])],
        [{"verbs": ["a", "b"]}],
    ),
    "one that aggregates nothing": ([role("saw", BAR, SAW), role("combined", {}, HAMMER)], None),
    "none of that name": ([role("saw", BAR, SAW)], None),
}


@pytest.mark.parametrize(("roles", "rules"), CASES.values(), ids=CASES.keys())
def test_rules_of_selected_roles_are_applied(roles: list[Object], rules: list[Object] | None) -> None:
    commands = sync(*roles).commands
    if rules is None:
        assert commands == []
        return
    [command] = commands
    assert isinstance(command, Patch)
    assert (command.key, command.patch_type, command.force) == ("combined", PatchType.APPLY, True)
    assert command.field_manager == "clusterrole-aggregation-controller"
    body = orjson.loads(command.body)
    meta = body.pop("metadata")
    assert body == {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules}
    assert meta.keys() == {"name", "uid", "resourceVersion"}, "the resourceVersion is a precondition"


def test_malformed_selector_fails() -> None:
    bad = {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}
    assert sync({**combined([]), "aggregationRule": {"clusterRoleSelectors": [bad]}}, raises=ValueError).commands == []


def test_conflict_is_retried() -> None:
    roles = [role("hammer", BAR, HAMMER), combined([BAR])]
    assert len(sync(*roles, raises=CommandError, answer=lambda _command: Conflict("newer")).commands) == 1


def test_rules_are_added_but_not_removed_while_a_role_is_unreadable() -> None:
    hammer, saw = role("hammer", BAR, HAMMER), role("saw", BAR, SAW)
    assert len(sync(hammer, saw, combined([BAR], HAMMER), unreadable="elsewhere").commands) == 1
    assert sync(hammer, combined([BAR], HAMMER, SAW), unreadable="elsewhere", raises=UnreadableError).commands == []
    assert sync(hammer, combined([BAR]), unreadable="combined", raises=UnreadableError).commands == []


def test_rules_are_aggregated_over_two_levels(cluster: SimulatedCluster) -> None:
    """The roles admin, edit and view of Kubernetes are aggregated in this way."""
    cluster.manager()
    gets: list[Object] = [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]

    def rules(name: str) -> list[Object]:
        found = cluster.get(CLUSTER_ROLES, name)
        assert found is not None
        return found.get("rules") or []

    def aggregating(name: str, label: str, **labels: str) -> None:
        rule = {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
        cluster.create(CLUSTER_ROLES, {"metadata": {"name": name, "labels": labels}, "aggregationRule": rule})

    aggregating("admin", "to-admin")
    aggregating("edit", "to-edit", **{"to-admin": "true"})
    cluster.create(CLUSTER_ROLES, {"metadata": {"name": "crontabs", "labels": {"to-edit": "true"}}, "rules": gets})
    assert cluster.run_until(lambda: rules("admin") == rules("edit") == gets, within=5)
    cluster.merge(CLUSTER_ROLES, "admin", {"rules": []})
    assert cluster.run_until(lambda: rules("admin") == gets, within=5)
    cluster.merge(CLUSTER_ROLES, "crontabs", {"metadata": {"labels": {"to-edit": None}}})
    assert cluster.run_until(lambda: rules("admin") == rules("edit") == [], within=5)
    cluster.merge(CLUSTER_ROLES, "crontabs", {"metadata": {"labels": {"to-edit": "true"}}})
    assert cluster.run_until(lambda: rules("admin") == gets, within=5)
    cluster.merge(CLUSTER_ROLES, "edit", {"aggregationRule": None})
    cluster.delete(CLUSTER_ROLES, "crontabs")
    cluster.run_for(5)
    assert rules("admin") == rules("edit") == gets, "edit has rules of its own now"
