"""Selection of the policies, bindings and parameters to evaluate for a request, and their match conditions.

Source: apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.expressions import seen
from kcm.runtime.apiserver.admission.policies.configured import AdmissionPolicy, Binding, configured
from kcm.runtime.apiserver.admission.policies.matching import Matched, matched
from kcm.runtime.apiserver.admission.policies.parameters import PolicyConfigurationError, param_definition, parameters
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors.status_errors import StatusError

if TYPE_CHECKING:
    from kcm.runtime.cel.admission import RequestEvaluation


class PolicyInvocation(NamedTuple):
    policy: AdmissionPolicy
    binding: Binding
    found: Matched
    params: Object | None


class Misconfigured(NamedTuple):
    """Policy or binding that cannot be evaluated, with the reason."""

    policy: AdmissionPolicy
    binding: Binding | None
    text: str


def invocations(
    cluster: Cluster, kinds: tuple[str, str], asked: Attributes
) -> Iterator[PolicyInvocation | Misconfigured]:
    """Yield the policies to evaluate for a request, once per binding and parameter. kinds: VALIDATING or MUTATING."""
    for policy, bindings in configured(cluster, kinds):
        try:
            found = matched(cluster, policy.constraints or {}, asked)
            if found is None:
                continue
            of_params = param_definition(cluster, policy)
        except (PolicyConfigurationError, StatusError) as err:
            yield Misconfigured(policy, None, f"failed to configure policy: {err}")
            continue
        for binding in bindings:
            try:
                if binding.resources is not None and matched(cluster, binding.resources, asked) is None:
                    continue
                handed = parameters(cluster, of_params, binding, asked.namespace)
            except (PolicyConfigurationError, StatusError) as err:
                yield Misconfigured(policy, binding, f"failed to configure binding: {err}")
                continue
            for params in handed:
                yield PolicyInvocation(policy, binding, found, params)


def applies(cluster: Cluster, asked: Attributes, invocation: PolicyInvocation) -> bool:
    """Evaluate the match conditions of a policy.

    Raises FailedError, and StatusError (404) if the namespace does not exist.
    """
    from kcm.runtime.cel.admission import CONDITIONS_BUDGET, conditions_hold

    policy = invocation.policy
    if not policy.conditions:
        return True
    run = run_of(cluster, asked, invocation, CONDITIONS_BUDGET)
    return conditions_hold(policy.conditions, run, ignores_failures=policy.ignores_failures)


def run_of(cluster: Cluster, asked: Attributes, invocation: PolicyInvocation, budget: int) -> RequestEvaluation:
    """Raises StatusError (404) without the namespace."""
    from kcm.runtime.cel.admission import RequestEvaluation

    found = invocation.found
    names = seen(cluster, asked, found.definition, found.kind, params=invocation.params)
    return RequestEvaluation(names, invocation.policy.variables, budget)
