"""Simulation trial of the type checks of policies: users define a kind, and create, change and delete policies."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.policies import (
    KINDS,
    WARNINGS,
    ChecksMatchTheGeneration,
    differing_warnings,
)
from kcm.actors.simulation.trials.actions import create, delete, merge, replace
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, metadata, name_of
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS, VALIDATING_ADMISSION_POLICIES

NAMES = ("limits", "names", "sizes")
GAUGE: Object = {
    "metadata": {"name": "gauges.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gauges", "singular": "gauge", "kind": "Gauge", "listKind": "GaugeList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}


def _spec(chance: random.Random) -> Object:
    rules = [
        {"apiGroups": [group], "apiVersions": [version], "resources": [resource], "operations": ["CREATE"]}
        for group, version, resource in chance.sample(sorted(KINDS), chance.randint(1, 3))
    ]
    expressions = chance.sample(sorted(WARNINGS), chance.randint(1, 3))
    return {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": text} for text in expressions],
    }


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("policy actions")
    yield create(round(chance.uniform(0.1, 0.9), 2), CUSTOM_RESOURCE_DEFINITIONS, GAUGE)
    for name in chance.sample(NAMES, chance.randint(1, len(NAMES))):
        yield from _life(scenario, chance, name)


def _life(scenario: Scenario, chance: random.Random, name: str) -> Iterable[Action]:
    """Yield the actions on one policy."""

    def make(at: float) -> Iterable[Action]:
        yield create(at, VALIDATING_ADMISSION_POLICIES, {"metadata": {"name": name}, "spec": _spec(chance)})

    def change(at: float) -> Iterable[Action]:
        yield merge(at, VALIDATING_ADMISSION_POLICIES, name, {"spec": _spec(chance)}, "changed")

    def label(at: float) -> Iterable[Action]:
        yield merge(at, VALIDATING_ADMISSION_POLICIES, name, {"metadata": {"labels": {"at": str(at)}}})

    def replace_it(at: float) -> Iterable[Action]:
        other = {"metadata": {"name": name}, "spec": _spec(chance)}
        yield replace(at, VALIDATING_ADMISSION_POLICIES, name, other)

    def remove(at: float) -> Iterable[Action]:
        yield delete(at, VALIDATING_ADMISSION_POLICIES, name)

    first = round(chance.uniform(1.0, 4.0), 2)
    yield from scenario.life(
        chance, make=make, changes=(change, change, label, replace_it), remove=remove, at=first, most=6
    )


def _policies(cluster: SimulatedCluster) -> Iterable[Object]:
    return (policy for policy in cluster.shown(VALIDATING_ADMISSION_POLICIES) if name_of(policy) in NAMES)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for policy in _policies(cluster):
        status, generation = policy.get("status") or {}, metadata(policy)["generation"]
        if status.get("observedGeneration") != generation:
            yield f"policy {name_of(policy)}: observed {status.get('observedGeneration')} of generation {generation}"
        else:
            for difference in differing_warnings(policy, status):
                yield f"policy {name_of(policy)}: {difference}"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    return {
        f"policy {name_of(policy)}": (metadata(policy)["generation"], (policy.get("status") or {}).get("typeChecking"))
        for policy in _policies(cluster)
    }


TRIAL = Trial(
    controller="validatingadmissionpolicy-status-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (ChecksMatchTheGeneration(),),
)
