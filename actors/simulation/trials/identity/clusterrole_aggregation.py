"""Simulation trial of aggregated ClusterRoles: users create, change and delete them and the roles that they select."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.roles import OnlyAggregatedRulesAreWritten, aggregated
from kcm.actors.simulation.trials.identity.actions import if_exists
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, labels_of, name_of
from kcm.protocols.resources import CLUSTER_ROLES

PARTS = ("chisel", "hammer", "saw")
WHOLES = ("toolbox", "workshop")
TO = "example.com/aggregate-to-"
VERBS = ("get", "list", "watch")


def _rules(chance: random.Random) -> list[Object]:
    some = chance.sample(VERBS, chance.randint(1, len(VERBS)))
    things = chance.sample(("boards", "nails", "wedges"), chance.randint(0, 3))
    return [{"verbs": some, "apiGroups": [""], "resources": [thing]} for thing in things]


def _labels(chance: random.Random, wholes: Iterable[str]) -> dict[str, str | None]:
    """Draw labels of a ClusterRole for a merge patch, by which aggregated ClusterRoles select it.

    wholes: names of the aggregated ClusterRoles.
    """
    return {TO + whole: chance.choice(("true", "true", None)) for whole in wholes}


def _selectors(chance: random.Random, whole: str) -> list[Object]:
    mine: Object = {"matchLabels": {TO + whole: "true"}}
    wide: Object = {"matchExpressions": [{"key": TO + chance.choice(WHOLES), "operator": "Exists"}]}
    return chance.choice(([mine], [mine, wide], [wide, mine]))


def _create(at: float, role: Object) -> Action:
    """Return the action that creates a ClusterRole, unless its name exists."""

    def do(cluster: SimulatedCluster) -> bool:
        if cluster.get(CLUSTER_ROLES, name_of(role)) is None:
            cluster.create(CLUSTER_ROLES, role)
        return True

    return Action(at, f"create ClusterRole {name_of(role)}", do)


def _part(chance: random.Random, name: str) -> Object:
    labels = {key: value for key, value in _labels(chance, WHOLES).items() if value}
    return {"metadata": {"name": name, "labels": labels}, "rules": _rules(chance)}


def _whole(chance: random.Random, name: str) -> Object:
    """Build an aggregated ClusterRole with rules that the controller must replace.

    The first aggregated ClusterRole may select the second, as the built-in role admin selects edit.
    """
    labels = {TO + WHOLES[0]: "true"} if name == WHOLES[1] and chance.random() < 0.5 else {}
    rule = {"clusterRoleSelectors": _selectors(chance, name)}
    return {"metadata": {"name": name, "labels": labels}, "aggregationRule": rule, "rules": _rules(chance)}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("cluster role actions")
    for name in (*PARTS, *WHOLES):
        make = _whole if name in WHOLES else _part
        born, *times = scenario.times(chance, chance.randint(2, 5), first=1.0)
        yield _create(born, make(chance, name))
        for at in times:
            match chance.randrange(8):
                case 0:
                    yield if_exists(at, CLUSTER_ROLES, name, None, "deleted")
                    if chance.random() < 0.6:
                        yield _create(at + chance.choice((0.0, 1.0)), make(chance, name))
                case 1 | 2 | 3:
                    yield if_exists(at, CLUSTER_ROLES, name, {"rules": _rules(chance)}, "given other rules")
                case _ if name in PARTS:
                    changes: Object = {"metadata": {"labels": _labels(chance, WHOLES)}}
                    yield if_exists(at, CLUSTER_ROLES, name, changes, f"labelled {changes['metadata']['labels']}")
                case 4:
                    changes = {"aggregationRule": None, "rules": _rules(chance)}
                    yield if_exists(at, CLUSTER_ROLES, name, changes, "left without aggregation")
                case _:
                    changes = {"aggregationRule": {"clusterRoleSelectors": _selectors(chance, name)}}
                    yield if_exists(at, CLUSTER_ROLES, name, changes, f"made to select {changes}")


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    roles = {name_of(role): role for role in cluster.shown(CLUSTER_ROLES)}
    for name, role in roles.items():
        wanted = aggregated(role, roles)
        if wanted is not None and wanted != (role.get("rules") or []):
            yield f"ClusterRole {name} has {role.get('rules')} instead of {wanted}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    roles = (role for role in cluster.shown(CLUSTER_ROLES) if name_of(role) in (*PARTS, *WHOLES))
    return {f"ClusterRole {name_of(role)}": (labels_of(role), role.get("rules") or []) for role in roles}


TRIAL = Trial(
    controller="clusterrole-aggregation-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (OnlyAggregatedRulesAreWritten(),),
)
