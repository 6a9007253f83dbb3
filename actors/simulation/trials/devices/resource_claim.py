"""Simulation trial of the resource claim controller.

Users create templates, claims, and pods that use them, and delete them. A small scheduler of this trial allocates
claims, with or without a reservation, and creates claims for extended resources.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcm.actors.controllers.devices.resource_claim.claims import is_done
from kcm.actors.controllers.devices.resource_claim.reconciler import ClaimError
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.resource_claims import ClaimsServeTheirPods, OneClaimForEachEntry
from kcm.actors.simulation.trials.actions import create, delete, replace, unless_gone
from kcm.actors.simulation.trials.scenario import NAMESPACE, Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import (
    Object,
    annotations_of,
    controller_of,
    finalizers_of,
    is_deleting,
    key_of,
    labels_of,
    make_key,
    name_of,
    uid_of,
)
from kcm.protocols.pods import pod_facts
from kcm.protocols.resource_claims import (
    DELETE_PROTECTION,
    EXTENDED_RESOURCE_CLAIM,
    POD_CLAIM_NAME,
    allocation_of,
    claim_entries,
    claim_name,
    claim_names,
    consumer_of,
    consumers_of,
    is_pod,
    is_reserved_for,
    owner_problem,
    owning_pod,
)
from kcm.protocols.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

LABEL = {"uses": "devices"}  # labels of the pods of this trial
TEMPLATES = ("gpu", "nic")
SHARED = ("shared-0", "shared-1")  # names of the claims that users create
SCRIPTS = ("exit 0", "sleep 3", "sleep 10", "", "", "")  # with "" a pod runs until it is deleted
# Resource of the claims for extended resources. The controller does not read it; a node needs no device for "cpu".
MAPPED = "cpu"
DRIVER = "claims.example.com"  # also the name of the device class, which does not exist
SPEC: Object = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
ALLOCATION = {"devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": "pool", "device": "device"}]}}
GHOST = {"resource": "pods", "name": "ghost", "uid": "ghost"}
FOREIGN = {"apiGroup": "example.com", "resource": "jobs", "name": "job", "uid": "job"}


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("resource claim actions")
    for name in TEMPLATES:
        yield from _template_actions(scenario, chance, name)
    for name in SHARED:
        yield from _claim_actions(scenario, chance, name)
    for number in range(chance.randint(2, 6)):
        yield from _pod_actions(scenario, chance, f"device-user-{number}")
    for at in scenario.times(chance, chance.randint(3, 14), first=1.5):
        yield chance.choice((_allocate, _allocate, _allocate, _extend, _add_consumer, _delete_generated))(
            at, chance.randrange(64)
        )


def _template_actions(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one template: it exists in the end."""
    made, replaced = scenario.times(chance, 2, first=0.5)
    yield create(made if chance.random() < 0.5 else 0.5, RESOURCE_CLAIM_TEMPLATES, _template(name, "1"))
    if chance.random() < 0.3:
        key = make_key(NAMESPACE, name)
        yield replace(round(replaced + 0.01, 2), RESOURCE_CLAIM_TEMPLATES, key, _template(name, "2"))


def _template(name: str, version: str) -> Object:
    labels = {"template": name, "version": version}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"metadata": {"labels": labels}, "spec": SPEC},
    }


def _claim_actions(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on a claim that users create, and sometimes delete. Its name is not used again."""
    made, removed = scenario.times(chance, 2, first=0.5)
    yield create(made, RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": SPEC})
    if chance.random() < 0.4:
        key = make_key(NAMESPACE, name)
        yield unless_gone(delete(round(removed + 0.01, 2), RESOURCE_CLAIMS, key), RESOURCE_CLAIMS, key)


def _pod_actions(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one pod: create it, and sometimes delete or replace it."""
    made, changed = scenario.times(chance, 2, first=0.6)
    key = make_key(NAMESPACE, name)
    yield create(made, PODS, _pod(scenario, chance, name))
    drawn, at = chance.random(), round(changed + 0.01, 2)
    if drawn < 0.25:
        yield unless_gone(delete(at, PODS, key), PODS, key)
    elif drawn < 0.4 and scenario.steady:
        yield replace(at, PODS, key, _pod(scenario, chance, name))


def _pod(scenario: Scenario, chance: random.Random, name: str) -> Object:
    entries: list[Object] = [
        {"name": f"device-{number}", "resourceClaimTemplateName": chance.choice(TEMPLATES)}
        for number in range(chance.randint(1, 2))
    ]
    if chance.random() < 0.4:
        entries.append({"name": "shared", "resourceClaimName": chance.choice(SHARED)})
    script = chance.choice(SCRIPTS)
    container: Object = {"name": "c", "image": "v1", "resources": {"requests": {MAPPED: "1m"}}}
    if script:
        container["command"] = ["sh", "-c", script]
    spec = {"restartPolicy": "Never", "containers": [container], "resourceClaims": entries, **scenario.pod}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": LABEL}, "spec": spec}


def _pods(cluster: SimulatedCluster) -> list[Object]:
    """Return the pods of this trial, by name."""
    pods = (pod for pod in cluster.shown(PODS, NAMESPACE) if LABEL.items() <= labels_of(pod).items())
    return sorted(pods, key=name_of)


def _claims(cluster: SimulatedCluster) -> list[Object]:
    """Return the claims of this trial."""
    claims = cluster.list(RESOURCE_CLAIMS, NAMESPACE)
    return [
        claim for claim in claims if claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == DRIVER
    ]


def _users(cluster: SimulatedCluster, claim: Object) -> list[Object]:
    """Return the pods that refer to a claim and may run."""
    return [
        pod
        for pod in _pods(cluster)
        if name_of(claim) in claim_names(pod) and not is_done(pod_facts(pod)) and not is_deleting(pod)
    ]


def _allocate(at: float, number: int) -> Action:
    """Return the action of a scheduler that allocates a claim, and reserves it for one of its pods if number is odd."""

    def do(cluster: SimulatedCluster) -> bool:
        free = [claim for claim in _claims(cluster) if allocation_of(claim) is None and not is_deleting(claim)]
        if free:
            claim = free[number // 2 % len(free)]
            users = _users(cluster, claim) if number % 2 else []
            _write_allocation(cluster, claim, [consumer_of(pod) for pod in users[:1]])
        return True

    return Action(at, "a claim is allocated", do)


def _write_allocation(cluster: SimulatedCluster, claim: Object, consumers: list[Object]) -> None:
    finalizers = {"finalizers": sorted({*finalizers_of(claim), DELETE_PROTECTION})}
    cluster.merge(RESOURCE_CLAIMS, key_of(claim), {"metadata": finalizers})
    status: Object = {"allocation": ALLOCATION, **({"reservedFor": consumers} if consumers else {})}
    cluster.merge(RESOURCE_CLAIMS, key_of(claim), {"status": status}, subresource="status")


def _extend(at: float, number: int) -> Action:
    """Return the action of a scheduler that creates an allocated claim for the extended resources of a pod."""

    def do(cluster: SimulatedCluster) -> bool:
        pods = [
            pod
            for pod in _pods(cluster)
            if not is_done(pod_facts(pod)) and not is_deleting(pod) and not _has_extended(pod)
        ]
        if pods:
            pod = pods[number % len(pods)]
            owner = {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": name_of(pod),
                "uid": uid_of(pod),
                "controller": True,
                "blockOwnerDeletion": True,
            }
            meta = {
                "name": f"{name_of(pod)}-extended-resources-{number}-{round(at * 100)}",
                "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
                "ownerReferences": [owner],
            }
            claim = cluster.create(RESOURCE_CLAIMS, {"metadata": meta, "spec": SPEC})
            _write_allocation(cluster, claim, [consumer_of(pod)])
            mapping = {"containerName": "c", "resourceName": MAPPED, "requestName": "gpu"}
            status = {"resourceClaimName": meta["name"], "requestMappings": [mapping]}
            changes = {"status": {"extendedResourceClaimStatus": status}}
            cluster.merge(PODS, key_of(pod), changes, subresource="status")
        return True

    return Action(at, "a claim is created for extended resources", do)


def _has_extended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("extendedResourceClaimStatus") is not None


def _add_consumer(at: float, number: int) -> Action:
    """Return the action that reserves a claim for a pod that does not exist, or for another kind of consumer."""

    def do(cluster: SimulatedCluster) -> bool:
        allocated = [claim for claim in _claims(cluster) if allocation_of(claim) is not None and not is_deleting(claim)]
        if allocated:
            claim = allocated[number % len(allocated)]
            consumer = FOREIGN if number % 4 == 0 else GHOST
            if consumer not in consumers_of(claim):
                changes = {"status": {"reservedFor": [*consumers_of(claim), consumer]}}
                cluster.merge(RESOURCE_CLAIMS, key_of(claim), changes, subresource="status")
        return True

    return Action(at, "a claim is reserved for another consumer", do)


def _delete_generated(at: float, number: int) -> Action:
    def do(cluster: SimulatedCluster) -> bool:
        generated = [claim for claim in _claims(cluster) if POD_CLAIM_NAME in annotations_of(claim)]
        if generated:
            cluster.delete(RESOURCE_CLAIMS, key_of(generated[number % len(generated)]))
        return True

    return Action(at, "a generated claim is deleted", do)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    claims = {name_of(claim): claim for claim in cluster.shown(RESOURCE_CLAIMS, NAMESPACE)}
    pods = {name_of(pod): pod for pod in cluster.shown(PODS, NAMESPACE)}
    templates = {name_of(template) for template in cluster.shown(RESOURCE_CLAIM_TEMPLATES, NAMESPACE)}
    for pod in pods.values():
        if not is_deleting(pod) and LABEL.items() <= labels_of(pod).items():
            yield from _wrong_claims_of(pod, claims, templates)
    for claim in claims.values():
        yield from _wrong_consumers(claim, pods)


def _wrong_claims_of(pod: Object, claims: Mapping[str, Object], templates: set[str]) -> Iterable[str]:
    """Yield a text for each missing claim of a pod, and for each allocated claim that is not reserved for it."""
    facts = pod_facts(pod)
    for entry in claim_entries(pod):
        found = claim_name(pod, entry)
        assert found is not None
        claim = claims.get(found.name or "")
        if claim is None:
            if found.template in templates and not is_done(facts):
                yield f"pod {name_of(pod)} has no claim for {entry['name']}"
        elif found.template and owner_problem(pod, claim, accept_group=False):
            yield f"claim {found.name} in the status of pod {name_of(pod)} is not its own"
        elif (
            facts.node
            and not is_done(facts)
            and allocation_of(claim) is not None
            and not is_deleting(claim)
            and not is_reserved_for(pod, claim, accept_group=False)
        ):
            yield f"claim {found.name} is not reserved for pod {name_of(pod)}"


def _wrong_consumers(claim: Object, pods: Mapping[str, Object]) -> Iterable[str]:
    """Yield a text for each consumer that is gone, and for a claim without use."""
    name, consumers = name_of(claim), consumers_of(claim)
    for consumer in consumers:
        pod = pods.get(consumer["name"])
        if is_pod(consumer) and (pod is None or uid_of(pod) != consumer["uid"] or is_done(pod_facts(pod))):
            yield f"claim {name} is reserved for pod {consumer['name']}, which is gone"
    if consumers:
        return
    if is_deleting(claim) and DELETE_PROTECTION in finalizers_of(claim):
        yield f"claim {name} has no consumers, but still its finalizer"
    owner = owning_pod(claim)
    pod = None if owner is None else pods.get(owner[0].rpartition("/")[2])
    if owner is not None and (pod is None or uid_of(pod) != owner[1] or is_done(pod_facts(pod))):
        yield f"claim {name} exists, but its pod {owner[0]} will not run"


def _end_state(cluster: SimulatedCluster) -> Mapping[str, Any]:
    """Return which of the users' claims and templates remain."""
    claims = (claim for claim in cluster.shown(RESOURCE_CLAIMS, NAMESPACE) if controller_of(claim) is None)
    return {
        "users' claims": sorted(name_of(claim) for claim in claims if not is_deleting(claim)),
        "claim templates": sorted(name_of(template) for template in cluster.shown(RESOURCE_CLAIM_TEMPLATES, NAMESPACE)),
    }


TRIAL = Trial(
    controller="resourceclaim-controller",
    actions=_actions,
    unsettled=_unsettled,
    end_state=_end_state,
    invariants=lambda _cluster, _options: (ClaimsServeTheirPods(), OneClaimForEachEntry()),
    deletes=(RESOURCE_CLAIMS,),
    raises=(ClaimError,),
)
