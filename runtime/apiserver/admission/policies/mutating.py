"""Evaluation of MutatingAdmissionPolicies.

Source: apiserver pkg/admission/plugin/policy/mutating/{dispatcher,reinvocationcontext}.go,
patch/{smd,json_patch}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kcm.protocols.objects import Object, metadata
from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.expressions import to_request_version, to_version
from kcm.runtime.apiserver.admission.policies.configured import (
    MUTATING,
    AdmissionPolicy,
    Binding,
    Mutation,
    bound_policies,
)
from kcm.runtime.apiserver.admission.policies.matching import MatchedVersion, is_subject_to_policies
from kcm.runtime.apiserver.admission.policies.policy_matcher import (
    Misconfigured,
    PolicyInvocation,
    applies,
    evaluator_of,
    invocations,
)
from kcm.runtime.apiserver.core.body_decoder import UnfitError, settle_types
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.merge_types import merge_type_of
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.schema.merge_types import MergeType
from kcm.runtime.apiserver.schema.patches import apply_json_patch
from kcm.runtime.apiserver.schema.typed_errors import typed_errors
from kcm.runtime.apiserver.schema.typed_merge import merge
from kcm.runtime.apiserver.storage.sizes import check_draft

if TYPE_CHECKING:
    from kcm.runtime.cel.admission import RequestEvaluation


class _MutationError(Exception):
    """Mutation that could not be applied."""


def mutate(cluster: Cluster, attributes: Attributes, plugins: Callable[[Object], Object]) -> Object | None:
    """Run the matching policies, and return the resulting object. Raises StatusError.

    Objects are in the API version of the request. If a policy has changed the object, the built-in plugins run again,
    followed by the policies with reinvocationPolicy IfNeeded.

    plugins: returns the object after another run of the built-in mutating plugins
    """
    if attributes.obj is None or not is_subject_to_policies(attributes):
        return attributes.obj
    changed, again = _run_round(cluster, attributes, None)
    if changed is attributes.obj:
        return changed
    settled = plugins(changed)
    return _run_round(cluster, attributes._replace(obj=settled), again)[0] if again else settled


def reinvoke(cluster: Cluster, attributes: Attributes) -> Object | None:
    """Run the policies with reinvocationPolicy IfNeeded after webhooks have changed the object. Raises StatusError."""
    if attributes.obj is None or not is_subject_to_policies(attributes):
        return attributes.obj
    again = {policy.name for policy, _bindings in bound_policies(cluster, MUTATING) if policy.reinvoked_if_needed}
    return _run_round(cluster, attributes, again)[0] if again else attributes.obj


def _run_round(cluster: Cluster, attributes: Attributes, only: set[str] | None) -> tuple[Object, set[str]]:
    """Run the matching policies once, and return the resulting object.

    Also returns the names of the policies with reinvocationPolicy IfNeeded among them.

    only: names of the policies to run in a second round; None runs all

    Raises StatusError.
    """
    assert attributes.obj is not None
    again: set[str] = set()
    failures: list[str] = []
    for invocation in invocations(cluster, MUTATING, attributes):
        policy = invocation.policy
        if isinstance(invocation, Misconfigured):
            failures += _failure(policy, invocation.binding, invocation.text)
            continue
        if only is not None and policy.name not in only:
            continue
        attributes = attributes._replace(obj=_apply_policy(cluster, attributes, invocation, failures))
        if policy.reinvoked_if_needed:
            again.add(policy.name)
    if failures:
        raise _refusal(attributes, failures)
    assert attributes.obj is not None
    return attributes.obj, again


def _apply_policy(
    cluster: Cluster, attributes: Attributes, invocation: PolicyInvocation, failures: list[str]
) -> Object:
    """Return the object after the mutations of a policy. Raises StatusError.

    Mutations that fail are skipped, and their messages are added to `failures`.
    """
    from kcm.runtime.cel.admission import BUDGET, FailedError, SpentError

    policy, obj = invocation.policy, attributes.obj
    assert obj is not None
    try:
        if not applies(cluster, attributes, invocation):
            return obj
    except FailedError as err:
        failures += _failure(policy, invocation.binding, str(err))
        return obj
    for mutation in policy.mutations:
        attributes = attributes._replace(obj=obj)
        run = evaluator_of(cluster, attributes, invocation, BUDGET)
        try:
            obj = _apply_mutation(cluster, attributes, invocation.found, mutation, run)
        except (FailedError, SpentError, _MutationError) as err:
            failures += _failure(policy, invocation.binding, str(err))
    return obj


def _apply_mutation(
    cluster: Cluster, attributes: Attributes, found: MatchedVersion, mutation: Mutation, run: RequestEvaluation
) -> Object:
    """Apply one mutation, and return the resulting object in the API version of the request.

    found: API version in which the mutation sees the object
    run: evaluator of the expression

    Raises FailedError and SpentError (evaluation), _MutationError (invalid patch) and StatusError.
    """
    value = run.value(mutation.expression)
    assert attributes.obj is not None
    obj = to_version(attributes, found.definition, attributes.obj)
    if mutation.is_patch:
        try:
            new = apply_json_patch(obj, _to_json(value))
        except ValueError as err:
            if any(operation.get("op") == "test" for operation in value):
                return attributes.obj or {}  # a failed test operation is not an error: the patch is skipped
            raise _MutationError(f"JSON Patch: {_missing_path(obj, value) or err}") from err
    else:
        kind = merge_type_of(found.definition)
        wrong = typed_errors(_to_json(value), kind)
        if wrong:
            reasons = wrong[0] if len(wrong) == 1 else "errors:\n" + "\n".join(f"  {error}" for error in wrong)
            why = f"failed to convert patch object to typed object: {reasons}"
            raise _MutationError(f"error applying patch: {why}")
        atomic = list(_atomic_paths(_to_json(value), kind, ""))
        if atomic:
            why = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
            raise _MutationError(f"error applying patch: invalid ApplyConfiguration: {why}")
        new = merge(obj, _to_json(value), kind)
    try:
        check_draft(new)
    except ValueError as err:
        raise _MutationError(str(err)) from err
    return to_request_version(attributes, found.definition, _checked_and_defaulted(cluster, attributes, found, new))


def _missing_path(obj: Object, operations: list[Any]) -> str | None:
    """Return upstream's message for the first operation of a JSON patch whose parent path is missing in obj."""
    for operation in operations:
        path = str(operation.get("path") or "")
        here: Any = obj
        for step in path.split("/")[1:-1]:
            name = step.replace("~1", "/").replace("~0", "~")
            here = here.get(name) if isinstance(here, dict) else here
            if here is None:
                what = f"{operation.get('op')} operation does not apply"
                return f"{what}: doc is missing path: {quoted(path)}: missing value"
    return None


def _checked_and_defaulted(cluster: Cluster, attributes: Attributes, found: MatchedVersion, new: Object) -> Object:
    """Check the types of a mutated object, and set its defaults, in place. Raises StatusError (500).

    The body of a subresource is returned unchanged.
    """
    if not attributes.is_whole:
        return new
    managers = metadata(new).get("managedFields")
    try:
        settle_types(cluster, found.definition, new)
    except UnfitError as err:
        raise status_errors.internal(str(err)) from err
    if managers:
        new["metadata"]["managedFields"] = managers
    if found.definition.to_storage is None:
        found.definition.strategy.set_defaults(new)
        found.definition.strategy.set_times(new, None, cluster.timestamp())
    return new


def _to_json(value: Any) -> Any:
    """Convert a CEL value to JSON. Instances of subclasses of int become plain integers."""
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def _atomic_paths(value: Any, kind: MergeType, path: str) -> Iterator[str]:
    """Yield the paths of atomic fields in an apply configuration. Upstream rejects them, as a merge would replace them.

    kind: merge type of the value
    path: path of the value in the object; "" for the object itself
    """
    if isinstance(value, dict):
        if kind.atomic and path:
            yield path
            return
        for name, item in value.items():
            yield from _atomic_paths(item, kind.field(name), f"{path}.{name}")
    elif isinstance(value, list):
        if kind.atomic or not kind.is_associative:
            yield path
            return
        for index, item in enumerate(value):
            yield from _atomic_paths(item, kind.element, f"{path}[{index}]")


def _failure(policy: AdmissionPolicy, binding: Binding | None, text: str) -> list[str]:
    """Return a list with upstream's message for a failed policy; an empty list if the policy ignores failures."""
    if policy.ignores_failures:
        return []
    if binding is None:
        return [f"policy {quoted(policy.name)} denied request: {text}"]
    return [f"policy '{policy.name}' with binding '{binding.name}' denied request: {text}"]


def _refusal(attributes: Attributes, failures: list[str]) -> StatusError:
    definition = attributes.definition
    error = status_errors.forbidden(definition.group, definition.plural, attributes.name, failures[0])
    error.message = failures[0]
    error.reason = "Invalid"
    error.details = {**(error.details or {}), "causes": [{"message": text} for text in failures]}
    return error
