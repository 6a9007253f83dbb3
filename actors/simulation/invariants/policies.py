"""Invariants of the type checks of ValidatingAdmissionPolicies, with results that are known beforehand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.simulation.invariants.observer import Committed, Fail, Observation, decoded, only
from kcm.protocols.objects import Object, metadata, name_of, uid_of
from kcm.protocols.resources import VALIDATING_ADMISSION_POLICIES
from kcm.runtime.apiserver.storage.store import DELETED

# By resource rule: the kind that it matches, as in warnings. "" matches none.
KINDS = {
    ("", "v1", "configmaps"): "/v1, Kind=ConfigMap",
    ("apps", "v1", "deployments"): "apps/v1, Kind=Deployment",
    ("example.com", "v1", "gauges"): "example.com/v1, Kind=Gauge",
    ("apps", "*", "deployments"): "",
    ("apps", "v1", "deployments/scale"): "",
    ("example.com", "v1", "missing"): "",
}
CONFIGMAP, DEPLOYMENT, GAUGE = (kind for kind in KINDS.values() if kind)
MISMATCH = "found no matching overload for '_>_' applied to '(int, string)'"
# By expression: part of the warning for each kind.
WARNINGS: Mapping[str, Mapping[str, str]] = {
    "object.metadata.name != 'x'": {},
    "object.spec.replicas > 1": {CONFIGMAP: "undefined field 'spec'", GAUGE: "undefined field 'replicas'"},
    "object.data['a'] == 'b'": {DEPLOYMENT: "undefined field 'data'", GAUGE: "undefined field 'data'"},
    "object.spec.size > '1'": {
        CONFIGMAP: "undefined field 'spec'",
        DEPLOYMENT: "undefined field 'size'",
        GAUGE: MISMATCH,
    },
}


def expected_warnings(policy: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the parts of the warnings that a policy must have, by fieldRef, each "KIND: PART"."""
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    places = ((rule["apiGroups"][0], rule["apiVersions"][0], rule["resources"][0]) for rule in rules)
    kinds = sorted({KINDS[place] for place in places} - {""})
    found: dict[str, list[str]] = {}
    for position, validation in enumerate(policy["spec"]["validations"]):
        parts = WARNINGS[validation["expression"]]
        some = [f"{kind}: {parts[kind]}" for kind in kinds if kind in parts]
        if some:
            found[f"spec.validations[{position}].expression"] = some
    return found


def differing_warnings(policy: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between the warnings in a status and those that the policy must have."""
    expected = expected_warnings(policy)
    entries = (status.get("typeChecking") or {}).get("expressionWarnings") or []
    fields = [entry["fieldRef"] for entry in entries]
    if fields != list(expected):
        yield f"warnings of {fields} instead of {list(expected)}"
        return
    for entry, parts in zip(entries, expected.values(), strict=True):
        paragraphs = entry["warning"].removesuffix("\n").split("\n\n")
        if len(paragraphs) != len(parts):
            yield f"{entry['warning']!r} instead of {parts}"
            continue
        for paragraph, part in zip(paragraphs, parts, strict=True):
            kind, _, text = part.partition(": ")
            if not paragraph.startswith(f"{kind}: ERROR: <input>:1:") or text not in paragraph:
                yield f"{paragraph!r} instead of {part!r}"


class ChecksMatchTheGeneration:
    """Invariant: the warnings in a status are those of the generation that it names, and no check is repeated."""

    name = "type checks match the generation of the policy"
    observes = (only(Committed, VALIDATING_ADMISSION_POLICIES.name),)

    def __init__(self) -> None:
        self._policies: dict[tuple[str, int], Object] = {}  # by uid and generation

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Committed):
            return
        for change in observation.changes:
            if change.storage == VALIDATING_ADMISSION_POLICIES.name and change.type != DELETED:
                self._check(decoded(change.raw), decoded(change.previous) if change.previous else {}, fail)

    def _check(self, policy: Object, before: Object, fail: Fail) -> None:
        uid, generation = uid_of(policy), metadata(policy)["generation"]
        self._policies.setdefault((uid, generation), policy)
        status, former = policy.get("status") or {}, before.get("status") or {}
        if status == former:
            return
        observed = status.get("observedGeneration") or 0
        if (uid, observed) not in self._policies:
            fail(f"{name_of(policy)}: observed generation {observed}, which never existed")
            return
        if observed <= (former.get("observedGeneration") or 0):
            fail(f"{name_of(policy)}: generation {observed} is checked again")
        for difference in differing_warnings(self._policies[uid, observed], status):
            fail(f"{name_of(policy)}, generation {observed}: {difference}")
