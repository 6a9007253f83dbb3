"""Selection of the policies, bindings and parameters to evaluate for a request, and their match conditions.

Source: apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.expressions import expression_variables
from kcm.runtime.apiserver.admission.policies.configured import AdmissionPolicy, Binding, bound_policies
from kcm.runtime.apiserver.admission.policies.matching import MatchedVersion, matched
from kcm.runtime.apiserver.admission.policies.parameters import PolicyConfigurationError, param_definition, parameters
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors.status_errors import StatusError

if TYPE_CHECKING:
    from kcm.runtime.cel.admission import RequestEvaluation


class PolicyInvocation(NamedTuple):
    """Policy to evaluate for a request, with one binding and one parameter object."""

    policy: AdmissionPolicy
    binding: Binding
    found: MatchedVersion
    params: Object | None  # None for a policy without parameters


class Misconfigured(NamedTuple):
    """Policy or binding that cannot be evaluated."""

    policy: AdmissionPolicy
    binding: Binding | None  # None if the policy is misconfigured
    text: str  # the reason


def invocations(
    cluster: Cluster, kinds: tuple[str, str], attributes: Attributes
) -> Iterator[PolicyInvocation | Misconfigured]:
    """Yield the policies that match a request, once for each matching binding and parameter object.

    kinds: VALIDATING or MUTATING
    """
    for policy, bindings in bound_policies(cluster, kinds):
        try:
            found = matched(cluster, policy.constraints or {}, attributes)
            if found is None:
                continue
            of_params = param_definition(cluster, policy)
        except (PolicyConfigurationError, StatusError) as err:
            yield Misconfigured(policy, None, f"failed to configure policy: {err}")
            continue
        for binding in bindings:
            try:
                if binding.resources is not None and matched(cluster, binding.resources, attributes) is None:
                    continue
                params_of_binding = parameters(cluster, of_params, binding, attributes.namespace)
            except (PolicyConfigurationError, StatusError) as err:
                yield Misconfigured(policy, binding, f"failed to configure binding: {err}")
                continue
            for params in params_of_binding:
                yield PolicyInvocation(policy, binding, found, params)


def applies(cluster: Cluster, attributes: Attributes, invocation: PolicyInvocation) -> bool:
    """Report whether all match conditions of a policy are true.

    Raises FailedError if a condition cannot be evaluated, and StatusError (404) if the namespace does not exist.
    """
    from kcm.runtime.cel.admission import CONDITIONS_BUDGET, conditions_hold

    policy = invocation.policy
    if not policy.conditions:
        return True
    run = evaluator_of(cluster, attributes, invocation, CONDITIONS_BUDGET)
    return conditions_hold(policy.conditions, run, ignores_failures=policy.ignores_failures)


def evaluator_of(
    cluster: Cluster, attributes: Attributes, invocation: PolicyInvocation, budget: int
) -> RequestEvaluation:
    """Return the evaluator of a policy's expressions for a request.

    budget: maximum total cost of the expressions, in CEL cost units

    Raises StatusError (404) if the namespace does not exist.
    """
    from kcm.runtime.cel.admission import RequestEvaluation

    found = invocation.found
    names = expression_variables(cluster, attributes, found.definition, found.kind, params=invocation.params)
    return RequestEvaluation(names, invocation.policy.variables, budget)
