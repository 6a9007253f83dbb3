"""Simulation trial of the resource quota controller: quotas of a namespace change, and users try to exceed them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator

from kcm.actors.controllers.apimachinery.resourcequota.evaluators import limits, status_of
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.quotas import QuotasAreNotExceeded, QuotaUsageExisted, actual_usage
from kcm.actors.simulation.trials.scenario import Action, Scenario
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Object, is_deleting, key_of, name_of, namespace_of
from kcm.protocols.quota.amounts import equal, in_words, read_amounts
from kcm.protocols.quota.calculation import NotCountedError
from kcm.protocols.quota.pods import counts
from kcm.protocols.resources import (
    CONFIGMAPS,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
    SECRETS,
    SERVICES,
    Resource,
    resource_path,
)

NAMESPACE = "limited"
FORBIDDEN, TAKEN, GONE = 403, 409, 404
ASKED = ("100m", "200m", "500m")
DEADLINE = 86_400  # seconds; longer than any run, because a pod that exceeds its deadline is no longer counted
SCOPES: tuple[list[str], ...] = ([], [], ["NotTerminating"], ["Terminating"], ["BestEffort"])

Body = Callable[[str], Object]


def _actions(scenario: Scenario) -> Iterable[Action]:
    chance = scenario.chance("resourcequota actions")
    if chance.random() < 0.2:
        return
    yield Action(0.5, f"create Namespace {NAMESPACE}", _create_namespace)
    for name in ("first", "second")[: chance.randint(1, 2)]:
        yield from _quota(scenario, chance, name)
    for number, at in enumerate(scenario.times(chance, chance.randint(5, 30), first=1.0)):
        resource, make = chance.choice(_kinds(chance))
        name = f"{resource.plural}-{number}"
        yield _try(at, "POST", resource, name, make(name))
        if chance.random() < 0.5:
            later = round(chance.uniform(at, scenario.seconds), 2)
            yield _try(later, "DELETE", resource, name)
        elif resource is PODS and chance.random() < 0.4:
            later = round(chance.uniform(at, scenario.seconds), 2)
            yield chance.choice((_complete, _set_deadline))(later, name)


def _create_namespace(cluster: SimulatedCluster) -> bool:
    cluster.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    return True


def _quota(scenario: Scenario, chance: random.Random, name: str) -> Iterator[Action]:
    """Yield the actions on one quota: create it, change its limits, and sometimes recreate it."""
    scopes = chance.choice(SCOPES)
    made, *changed = scenario.times(chance, chance.randint(1, 4), first=0.6)
    yield _try(made, "POST", RESOURCE_QUOTAS, name, _quota_body(name, _hard(chance, scopes), scopes))
    for at in changed:
        if chance.random() < 0.25:
            yield _try(at, "DELETE", RESOURCE_QUOTAS, name)
            yield _try(at, "POST", RESOURCE_QUOTAS, name, _quota_body(name, _hard(chance, scopes), scopes))
        else:
            # A merge patch keeps limits that it does not contain, so all other limits are set to null.
            hard = {**dict.fromkeys(_NAMES), **_hard(chance, scopes)}
            yield _try(at, "PATCH", RESOURCE_QUOTAS, name, {"spec": {"hard": hard}})


_NAMES = ("pods", "count/pods", "requests.cpu", "count/configmaps", "secrets", "services", "services.nodeports")


def _hard(chance: random.Random, scopes: list[str]) -> Object:
    if scopes:
        names = chance.sample(("pods",) if scopes == ["BestEffort"] else ("pods", "requests.cpu"), 1)
    else:
        names = chance.sample(_NAMES, chance.randint(1, 4))
    return {
        name: chance.choice(("500m", "1")) if name == "requests.cpu" else str(chance.randint(0, 5)) for name in names
    }


def _quota_body(name: str, hard: Object, scopes: list[str]) -> Object:
    return {"metadata": {"name": name}, "spec": {"hard": hard, **({"scopes": scopes} if scopes else {})}}


def _kinds(chance: random.Random) -> list[tuple[Resource, Body]]:
    asked, type_ = chance.choice(ASKED), chance.choice(("ClusterIP", "NodePort"))
    resources = {"requests": {"cpu": asked}} if chance.random() < 0.8 else {}

    def pod(name: str) -> Object:
        return {
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]},
        }

    def service(name: str) -> Object:
        return {"metadata": {"name": name}, "spec": {"type": type_, "ports": [{"port": 80}]}}

    def plain(name: str) -> Object:
        return {"metadata": {"name": name}}

    return [(PODS, pod), (PODS, pod), (SERVICES, service), (CONFIGMAPS, plain), (SECRETS, plain)]


def _complete(at: float, name: str) -> Action:
    return _try(at, "PATCH", PODS, name, {"status": {"phase": "Succeeded"}}, subresource="status")


def _set_deadline(at: float, name: str) -> Action:
    return _try(at, "PATCH", PODS, name, {"spec": {"activeDeadlineSeconds": DEADLINE}})


def _try(
    at: float, method: str, resource: Resource, name: str, body: Object | None = None, *, subresource: str = ""
) -> Action:
    """Return the action that sends a request once, and ignores whether a quota permits it.

    This depends on the latest count by the controller.
    """
    path = resource_path(resource.id, NAMESPACE, "" if method == "POST" else name, subresource)

    def do(cluster: SimulatedCluster) -> bool:
        more = {"content_type": "application/merge-patch+json"} if method == "PATCH" else {}
        response = cluster.request(method, path, body, **more)
        if response.status >= 400 and response.status not in (FORBIDDEN, TAKEN, GONE):
            raise AssertionError(f"{method} {path}: {response.status} {response.body!r:.300}")
        return True

    return Action(at, f"{method} {resource.kind} {name}", do)


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for quota in cluster.list(RESOURCE_QUOTAS):
        if is_deleting(quota):
            continue
        for pod in cluster.list(PODS, namespace_of(quota)):
            if is_deleting(pod) and counts(pod, cluster.clock.now()):
                yield f"pod {name_of(pod)} is terminating, and counts until its grace period ends"
        hard, status = read_amounts(limits(quota)), status_of(quota)
        where = f"status of quota {key_of(quota)}"
        if not equal(hard, read_amounts(status.get("hard"))):
            yield f"{where} has the limits {status.get('hard')} instead of {limits(quota)}"
        really = actual_usage(cluster, quota, hard)
        used = read_amounts(status.get("used"))
        if not equal(really, used):
            yield f"{where} has the usage {status.get('used')} instead of {in_words(really)}"


TRIAL = Trial(
    controller="resourcequota-controller",
    actions=_actions,
    unsettled=_unsettled,
    invariants=lambda cluster, _options: (QuotasAreNotExceeded(cluster), QuotaUsageExisted(cluster)),
    raises=(NotCountedError,),
)
