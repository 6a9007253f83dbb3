"""POST to pods/eviction: delete a pod if its PodDisruptionBudget allows it.

Source: kubernetes pkg/registry/core/pod/storage/eviction.go (v1.36). Differences: a request is one commit here, so
conflicts need no retry, and no pod becomes ready between the check and its deletion; if the preconditions of an
eviction fail, its budget is not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec.structs import replace

from kcm.protocols.budgets import ALWAYS_ALLOW, DISRUPTION_ALLOWED, SYNC_FAILED, with_disruption_allowed
from kcm.protocols.conditions import changed_condition, find_condition, is_true
from kcm.protocols.objects import Object, decode_object, key_of, labels_of, name_of, namespace_of
from kcm.runtime.apiserver.admission import chain
from kcm.runtime.apiserver.core.body_decoder import decode_body, parse_json
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.core.removal import DeleteOptions, check_preconditions, delete_object
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import invalid
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.kinds.policy import eviction as eviction_kind
from kcm.runtime.apiserver.kinds.policy import pod_disruption_budget
from kcm.runtime.apiserver.rules.selectors import selects
from kcm.runtime.apiserver.verbs.delete import options_in
from kcm.runtime.client.api import Response

TARGET, REASON, MESSAGE = "DisruptionTarget", "EvictionByEvictionAPI", "Eviction API: evicting"
MOST_DISRUPTED_PODS = 2000  # evictions that the disruption controller has not confirmed yet
AGAIN_AFTER = 10  # seconds (Retry-After) while the budget's status does not reflect its newest spec
_OLD_VERSION = "policy/v1beta1"
_BUDGETS = pod_disruption_budget.RESOURCE
_WITHOUT_BUDGET = ("Succeeded", "Failed", "Pending")  # phases of pods that no budget protects
_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_UNSAFE = "ignoreStoreReadErrorWithClusterBreakingPotential"


def evict(cluster: Cluster, call: RoutedRequest) -> Response:
    eviction = decode_body(cluster, eviction_kind.RESOURCE, _current_version(call.request.body))
    if eviction["metadata"].get("name") != call.route.name:
        raise status_errors.bad_request("name in URL does not match name in Eviction object")
    eviction = chain.admit_body(cluster, call, eviction_kind.RESOURCE, eviction)
    options = _options_of(call, eviction)
    pod = decode_object(cluster.record(call.definition, call.key).raw)
    spent: Object | None = None
    if not _needs_no_budget(pod):
        budgets = _budgets_of(cluster, pod)
        if len(budgets) > 1:
            failed = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
            return Response(status=201, body=orjson.dumps({**failed, "message": _SEVERAL, "code": 500}))
        if budgets and not _spends_nothing(budgets[0], pod):
            spent = _spent(cluster, budgets[0], pod)
    check_preconditions(call.definition, pod, options)
    if spent is not None and not options.dry_run:
        cluster.state.put(_BUDGETS.storage, key_of(spent), spent)
    _mark_and_delete(cluster, call, pod, options)
    done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    return Response(status=201, body=orjson.dumps(done))


def _current_version(body: bytes) -> bytes:
    """Convert a policy/v1beta1 Eviction, which has the same fields, to policy/v1."""
    if _OLD_VERSION.encode() not in body:
        return body
    try:
        eviction = parse_json(body)
    except ValueError:
        return body  # decode_body returns the error
    if not isinstance(eviction, dict) or eviction.get("apiVersion") != _OLD_VERSION:
        return body
    return orjson.dumps({**eviction, "apiVersion": eviction_kind.RESOURCE.api_version})


def _options_of(call: RoutedRequest, eviction: Object) -> DeleteOptions:
    given: dict[str, Any] = eviction.get("deleteOptions") or {}
    if given.get(_UNSAFE):
        wrong = invalid(
            f"deleteOptions.{_UNSAFE}", True, "can not be set for pod eviction, try after removing the option"
        )
        raise status_errors.invalid("policy", "Eviction", call.route.name, [wrong])
    dry_run = given.get("dryRun") or []
    if dry_run and call.dry_run and dry_run != ["All"]:
        raise StatusError(
            500, "", f"Non-matching dry-run options in request and content: [All] and [{' '.join(dry_run)}]"
        )
    return options_in(given, dry_run=call.dry_run or bool(dry_run))


def _needs_no_budget(pod: Object) -> bool:
    """Report whether the pod has finished, has not started, or is being deleted."""
    return (pod.get("status") or {}).get("phase") in _WITHOUT_BUDGET or "deletionTimestamp" in pod["metadata"]


def _budgets_of(cluster: Cluster, pod: Object) -> list[Object]:
    """Return the budgets in the pod's namespace that select the pod. An invalid selector selects nothing."""
    collection, labels = cluster.state.collection(_BUDGETS.storage), labels_of(pod)
    found = (decode_object(collection.records[key].raw) for key in collection.keys(namespace_of(pod)))
    return [budget for budget in found if _selects(budget, labels)]


def _selects(budget: Object, labels: Mapping[str, str]) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and bool(selects(selector, labels))


def _spends_nothing(budget: Object, pod: Object) -> bool:
    """Report whether the pod may be evicted without using up the budget.

    This is the case for a pod that is not ready, and so not part of currentHealthy, if the unhealthyPodEvictionPolicy
    allows its eviction.
    """
    if is_true((pod.get("status") or {}).get("conditions"), "Ready"):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == ALWAYS_ALLOW:
        return True
    status = budget.get("status") or {}
    desired = status.get("desiredHealthy") or 0
    return 0 < desired <= (status.get("currentHealthy") or 0)


def _spent(cluster: Cluster, budget: Object, pod: Object) -> Object:
    """Return the budget with disruptionsAllowed decremented, and with the pod added to disruptedPods.

    Raises StatusError (403, 429) if the budget does not allow the eviction.
    """
    name, status = name_of(budget), budget.get("status") or {}
    if (status.get("observedGeneration") or 0) < (budget["metadata"].get("generation") or 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", again=AGAIN_AFTER)
    allowed, disrupted = status.get("disruptionsAllowed") or 0, status.get("disruptedPods") or {}
    if allowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(disrupted) > MOST_DISRUPTED_PODS:
        raise _forbidden(name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller")
    if allowed == 0:
        raise _refused(_why_none(name, status))
    status = {**status, "disruptionsAllowed": allowed - 1}
    if allowed == 1:
        status = with_disruption_allowed(status, now=cluster.clock.now())
    return {**budget, "status": {**status, "disruptedPods": {**disrupted, name_of(pod): cluster.timestamp()}}}


def _why_none(name: str, status: Object) -> str:
    condition = find_condition(status.get("conditions"), DISRUPTION_ALLOWED) or {}
    message = (condition.get("message") or "") if condition.get("status") == "False" else ""
    current, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
    none = f"The disruption budget {name} does not allow evicting pods currently"
    if (
        message and condition.get("reason") == SYNC_FAILED
    ):  # checked first: the numbers are meaningless after a failed sync
        return f"{none} because it failed sync: {message}"
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    return f"{none} ({condition.get('reason') or ''}): {message}" if message else none


def _refused(cause: str, *, again: int = 0) -> StatusError:
    details: dict[str, Any] = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if again:
        details["retryAfterSeconds"] = again
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return StatusError(429, "TooManyRequests", message, details)


def _forbidden(name: str, because: str) -> StatusError:
    return status_errors.forbidden("policy", "poddisruptionbudget", name, because)


def _mark_and_delete(cluster: Cluster, call: RoutedRequest, pod: Object, options: DeleteOptions) -> None:
    """Set the condition DisruptionTarget, then delete the pod.

    The condition is a separate write, so that watches deliver it before the deletion.
    """
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    condition = changed_condition(conditions, TARGET, "True", REASON, MESSAGE, now=cluster.clock.now())
    if condition is not None and not options.dry_run:
        others = [condition for condition in conditions if condition.get("type") != TARGET]
        marked = {**pod, "status": {**status, "conditions": [*others, condition]}}
        cluster.state.put(call.definition.storage, call.key, marked)
        if options.resource_version is not None:
            version = str(cluster.record(call.definition, call.key).revision)
            options = replace(options, resource_version=version)
    delete_object(cluster, call.definition, call.key, options)
