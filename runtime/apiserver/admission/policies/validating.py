"""Evaluation of ValidatingAdmissionPolicies.

Source: apiserver pkg/admission/plugin/policy/validating/{dispatcher,validator}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import orjson

from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.policies.configured import VALIDATING, AdmissionPolicy, Binding, Validation
from kcm.runtime.apiserver.admission.policies.matching import is_subject_to_policies
from kcm.runtime.apiserver.admission.policies.policy_matcher import (
    Misconfigured,
    PolicyInvocation,
    applies,
    evaluator_of,
    invocations,
)
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError

if TYPE_CHECKING:
    from kcm.runtime.cel.admission import RequestEvaluation

LONGEST_MESSAGE, LONGEST_ANNOTATION = 5 * 1024, 10 * 1024
FAILURE = "validation.policy.admission.k8s.io/validation_failure"
_Annotations = dict[tuple[str, str], list[str]]  # values by policy and key
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class _Denial(NamedTuple):
    """Failed validation of a policy."""

    message: str
    reason: str = ""  # "" if an expression could not be evaluated
    position: int = 0  # index of the validation in the policy; -1 for an audit annotation


class _Denied(NamedTuple):
    """Failed validation that rejects the request."""

    policy: AdmissionPolicy
    binding: Binding | None  # None if the policy is misconfigured
    denial: _Denial


def validate(cluster: Cluster, attributes: Attributes) -> None:
    """Evaluate the matching policies, and add their warnings and audit annotations to the request.

    Raises the StatusError of the first policy that denies the request.
    """
    if not is_subject_to_policies(attributes):
        return
    annotations: _Annotations = {}
    denied: list[_Denied] = []
    for invocation in invocations(cluster, VALIDATING, attributes):
        denied += _evaluate(cluster, attributes, invocation, annotations)
    for (policy, key), values in annotations.items():
        attributes.call.annotate(f"{policy}/{key}", ", ".join(values))
    if denied:
        raise _refusal(attributes, denied[0])


def _evaluate(
    cluster: Cluster, attributes: Attributes, invocation: PolicyInvocation | Misconfigured, annotations: _Annotations
) -> Iterator[_Denied]:
    policy, binding = invocation.policy, invocation.binding
    if isinstance(invocation, Misconfigured):
        if not policy.ignores_failures:
            yield _Denied(policy, binding, _Denial(invocation.text))
        return
    for denial in _denials(cluster, attributes, invocation, annotations):
        if denial.position < 0:
            yield _Denied(policy, binding, denial)
        else:
            yield from _apply_actions(attributes, policy, invocation.binding, denial)


def _apply_actions(
    attributes: Attributes, policy: AdmissionPolicy, binding: Binding, denial: _Denial
) -> Iterator[_Denied]:
    """Apply the binding's validationActions: yield denials, add warnings and audit annotations."""
    for action in binding.actions:
        match action:
            case "Deny":
                yield _Denied(policy, binding, denial)
            case "Warn":
                attributes.call.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}': "
                    f"{denial.message}"
                )
            case "Audit":
                failure = {
                    "message": denial.message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": denial.position,
                    "validationActions": list(binding.actions),
                }
                attributes.call.annotate(FAILURE, orjson.dumps([failure]).decode())


def _denials(
    cluster: Cluster, attributes: Attributes, invocation: PolicyInvocation, annotations: _Annotations
) -> Iterator[_Denial]:
    """Yield the failed validations of a policy, and add the policy's audit annotations to `annotations`."""
    from kcm.runtime.cel.admission import BUDGET, FailedError, SpentError

    policy = invocation.policy
    try:
        if not applies(cluster, attributes, invocation):
            return
    except FailedError as err:
        yield _Denial(str(err))
        return
    run = evaluator_of(cluster, attributes, invocation, BUDGET)
    denials: list[_Denial] = []
    try:
        for position, validation in enumerate(policy.validations):
            denials += _evaluate_validation(policy, validation, position, run)
    except SpentError as err:
        denials = [] if policy.ignores_failures else [_Denial(str(err))]
    yield from denials
    yield from _add_annotations(policy, evaluator_of(cluster, attributes, invocation, BUDGET), annotations)


def _add_annotations(policy: AdmissionPolicy, run: RequestEvaluation, annotations: _Annotations) -> Iterator[_Denial]:
    from kcm.runtime.cel.admission import FailedError, SpentError

    for key, expression in policy.annotations:
        try:
            value = run.value(expression)
        except (FailedError, SpentError) as err:
            if not policy.ignores_failures:
                yield _Denial(str(err), position=-1)
            continue
        text = value.strip()[:LONGEST_ANNOTATION] if isinstance(value, str) else ""
        if text and text not in annotations.setdefault((policy.name, key), []):
            annotations[policy.name, key].append(text)


def _evaluate_validation(
    policy: AdmissionPolicy, validation: Validation, position: int, run: RequestEvaluation
) -> list[_Denial]:
    """Evaluate a validation. Return a list with its failure; an empty list if the expression is true.

    position: index of the validation in the policy

    Raises SpentError if the policy's cost budget is exceeded.
    """
    from kcm.runtime.cel.admission import FailedError

    try:
        if run.value(validation.expression) is True:
            return []
    except FailedError as err:
        return [] if policy.ignores_failures else [_Denial(str(err), position=position)]
    return [_Denial(_message(validation, run), validation.reason, position)]


def _message(validation: Validation, run: RequestEvaluation) -> str:
    from kcm.runtime.cel.admission import FailedError

    text = ""
    if validation.message_expression is not None:
        try:
            value = run.value(validation.message_expression)
        except FailedError:
            value = ""
        text = value.strip() if isinstance(value, str) else ""
        if len(text.encode()) > LONGEST_MESSAGE or "\n" in text:
            text = ""
    return text or validation.message.strip() or f"failed expression: {validation.expression.text}"


def _refusal(attributes: Attributes, denied: _Denied) -> StatusError:
    """Return the error for a denied request, with the policy's message and reason."""
    by = f"ValidatingAdmissionPolicy '{denied.policy.name}'"
    if denied.binding is not None:
        by += f" with binding '{denied.binding.name}'"
    message = f"{by} denied request: {denied.denial.message}"
    definition = attributes.definition
    name = attributes.name or ((attributes.obj or {}).get("metadata") or {}).get("generateName") or "Unknown"
    error = status_errors.forbidden(definition.group, definition.plural, name, message)
    error.reason = denied.denial.reason or "Invalid"
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
