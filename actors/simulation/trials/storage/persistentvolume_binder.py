"""Simulation trial of the volume binder: users create volumes, claims, and pods that use them, and delete them.

There are claims of four kinds: with a class that provisions volumes immediately, with a class that provisions them for
the first pod, with a class whose volumes users create, and with no class. Names are not reused after a deletion,
because a pod may still use the deleted object for an unknown time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.controllers.storage.persistentvolume_binder.claims import MisboundError
from kcm.actors.controllers.storage.persistentvolume_binder.matching import mismatch
from kcm.actors.hollow.provisioner import CLASS, NAME, WAITING_CLASS
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.volumes import BoundOnce, ProtectedWhileUsed
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.silence import no_node_is_silent
from kcm.actors.simulation.trials.storage.actions import STATIC, UNKNOWN, claim_actions, volume_actions
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import (
    Object,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    make_key,
    name_of,
    uid_of,
)
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.volumes import (
    PROVISIONED_BY,
    claim_keys,
    class_of,
    is_bound,
    is_of,
    key_of_reference,
    phase_of,
    volume_name_of,
)

MADE = (CLASS, WAITING_CLASS, None)  # provisioning classes of claims; None for the default, which may not exist yet


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("volume actions")
    claims = [f"claim-{number}" for number in range(chance.randint(2, 6))]
    for number in range(chance.randint(1, 6)):
        yield from volume_actions(scenario, chance, f"disk-{number}", class_=STATIC, claims=claims)
    for name in claims:
        yield from claim_actions(scenario, chance, name, chance.choice((*MADE, STATIC, STATIC)))


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    volumes = {name_of(pv): pv for pv in cluster.shown(PERSISTENT_VOLUMES)}
    claims = {make_key(NAMESPACE, name_of(pvc)): pvc for pvc in cluster.shown(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)}
    for claim in claims.values():
        wrong = _wrong_claim(claim, volumes)
        if wrong:
            yield f"claim {name_of(claim)} {wrong}"
    for volume in volumes.values():
        phase, wanted = phase_of(volume), _phases(volume, claims)
        if phase not in wanted:
            yield f"volume {name_of(volume)} is {phase}, not {' or '.join(wanted)}"
        elif phase == "Released" and annotations_of(volume).get(PROVISIONED_BY) == NAME:
            yield f"volume {name_of(volume)} is released, but not deleted"


def _wrong_claim(claim: Object, volumes: Mapping[str, Object]) -> str:
    phase, name = phase_of(claim), volume_name_of(claim)
    volume = volumes.get(name)
    if is_bound(claim):
        there = volume is not None and (volume["spec"].get("claimRef") or {}).get("uid") == uid_of(claim)
        wanted = "Bound" if there else "Lost"
        return "" if phase == wanted else f"is {phase}, not {wanted}"
    if phase != "Pending":
        return f"is {phase}, but not bound"
    if name:
        fits = volume is not None and (
            _is_reserved(volume, claim) or (_is_free(volume) and not mismatch(volume, claim))
        )
        return f"is not bound to {name}" if fits else ""
    if class_of(claim) == STATIC:
        fitting = [
            candidate for candidate in volumes.values() if _is_free(candidate) and not mismatch(candidate, claim)
        ]
        return f"is not bound, but {name_of(fitting[0])} is free" if fitting else ""
    if class_of(claim) in (WAITING_CLASS, UNKNOWN) or is_deleting(claim):
        return ""
    return "has no volume"


def _is_free(volume: Object) -> bool:
    return volume["spec"].get("claimRef") is None and phase_of(volume) == "Available"


def _is_reserved(volume: Object, claim: Object) -> bool:
    return volume["spec"].get("claimRef") is not None and is_of(volume, claim)


def _phases(volume: Object, claims: Mapping[str, Object]) -> tuple[str, ...]:
    reference = volume["spec"].get("claimRef")
    if reference is None or not reference.get("uid"):
        return ("Available",)
    claim = claims.get(key_of_reference(reference))
    if claim is None or uid_of(claim) != reference["uid"]:
        return ("Released", "Failed")
    return ("Bound",) if volume_name_of(claim) == name_of(volume) else ("Available", "Bound", "Released")


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return the phases of the remaining claims with immediate provisioning.

    A claim of a StatefulSet is included only if a pod uses it, and not at all if a node is silent, because it depends
    on timing which ordinals existed before a scale-down. Claims that are deleted with their StatefulSet are excluded,
    because a pod of the next StatefulSet with this name may still use such a claim.
    """
    kept = (
        claim
        for claim in cluster.shown(PERSISTENT_VOLUME_CLAIMS, NAMESPACE)
        if not is_deleting(claim) and controller_of(claim) is None
    )
    pods = cluster.shown(PODS, NAMESPACE) if no_node_is_silent(cluster) else ()
    used = {key for pod in pods if not is_deleting(pod) for key in claim_keys(pod)}
    return {
        f"claim {name_of(pvc)}": phase_of(pvc)
        for pvc in kept
        if class_of(pvc) == CLASS and (not _is_of_a_set(pvc) or key_of(pvc) in used)
    }


def _is_of_a_set(claim: Object) -> bool:
    """Report whether a StatefulSet created the claim: only these claims have labels."""
    return bool(labels_of(claim))


TRIAL = Trial(
    controller="persistentvolume-binder-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (BoundOnce(), ProtectedWhileUsed()),
    deletes=(PERSISTENT_VOLUMES,),
    raises=(MisboundError,),
)
