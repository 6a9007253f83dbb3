"""Stored policies with their bindings and compiled expressions, sorted by name.

Source: apiserver pkg/admission/plugin/policy/{validating,mutating}/{plugin,compilation}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kcm.protocols.objects import Object, decode_object, name_of
from kcm.runtime.apiserver.core.cluster import Cluster

if TYPE_CHECKING:
    from kcm.runtime.cel.admission import Expression
    from kcm.runtime.cel.types import Type

_GROUP = "admissionregistration.k8s.io"
VALIDATING = (f"validatingadmissionpolicies.{_GROUP}", f"validatingadmissionpolicybindings.{_GROUP}")
MUTATING = (f"mutatingadmissionpolicies.{_GROUP}", f"mutatingadmissionpolicybindings.{_GROUP}")
MOST_KEPT = 8 * 1024 * 1024  # maximum total bytes of the sources of cached policies

_kept: dict[bytes, AdmissionPolicy] = {}  # least recently used first


class Validation(Struct, frozen=True, kw_only=True):
    """Compiled entry of spec.validations: a CEL expression that must be true, and the error if it is not."""

    expression: Expression  # must be true
    message: str
    message_expression: Expression | None  # takes precedence over message
    reason: str  # of the error, such as Invalid or Forbidden


class Mutation(Struct, frozen=True, kw_only=True):
    """Compiled entry of spec.mutations: a CEL expression that returns a change of the object."""

    expression: Expression
    is_patch: bool  # whether the value is a JSON patch; otherwise an apply configuration


class AdmissionPolicy(Struct, frozen=True, kw_only=True):
    """Compiled ValidatingAdmissionPolicy or MutatingAdmissionPolicy."""

    name: str
    ignores_failures: bool  # failurePolicy Ignore
    constraints: Mapping[str, Any] | None  # the matchConstraints
    param_kind: Mapping[str, Any] | None
    conditions: tuple[Expression, ...]  # the matchConditions
    variables: Mapping[str, Expression] | None
    validations: tuple[Validation, ...]
    annotations: tuple[tuple[str, Expression], ...]  # keys and values of audit annotations
    mutations: tuple[Mutation, ...]
    reinvoked_if_needed: bool  # reinvocationPolicy IfNeeded


class Binding(Struct, frozen=True, kw_only=True):
    """ValidatingAdmissionPolicyBinding or MutatingAdmissionPolicyBinding."""

    name: str
    policy: str
    param_ref: Mapping[str, Any] | None
    resources: Mapping[str, Any] | None  # the matchResources
    actions: tuple[str, ...]  # the validationActions; empty for a mutating policy


def are_configured(cluster: Cluster, kinds: tuple[str, str]) -> bool:
    """Report whether policies and bindings of a type exist. kinds: VALIDATING or MUTATING."""
    policies, bindings = kinds
    return bool(cluster.state.collection(policies).records and cluster.state.collection(bindings).records)


def bound_policies(cluster: Cluster, kinds: tuple[str, str]) -> tuple[tuple[AdmissionPolicy, tuple[Binding, ...]], ...]:
    """Return the policies of a type, each with its bindings, without those that have none.

    kinds: VALIDATING or MUTATING
    """
    policies, bindings = (tuple(cluster.state.collection(kind).raw_objects()) for kind in kinds)
    return _bound(policies, bindings)


@lru_cache(maxsize=4)
def _bound(
    policies: tuple[bytes, ...], bindings: tuple[bytes, ...]
) -> tuple[tuple[AdmissionPolicy, tuple[Binding, ...]], ...]:
    by_policy: dict[str, list[Binding]] = {}
    for binding in map(_binding, map(decode_object, bindings)):
        by_policy.setdefault(binding.policy, []).append(binding)
    compiled = map(_policy, policies)
    return tuple((policy, tuple(by_policy[policy.name])) for policy in compiled if policy.name in by_policy)


def _binding(obj: Object) -> Binding:
    spec = obj.get("spec") or {}
    return Binding(
        name=name_of(obj),
        policy=spec.get("policyName") or "",
        param_ref=spec.get("paramRef"),
        resources=spec.get("matchResources"),
        actions=tuple(spec.get("validationActions") or ()),
    )


def _policy(raw: bytes) -> AdmissionPolicy:
    """Return the compiled policy for a stored policy, from a cache that is limited to MOST_KEPT bytes of sources."""
    found = _kept.pop(raw, None)
    if found is None:
        found = _compiled(raw)
        size = len(raw) + sum(map(len, _kept))
        while _kept and size > MOST_KEPT:
            oldest = next(iter(_kept))
            size -= len(oldest)
            del _kept[oldest]
    _kept[raw] = found
    return found


def _compiled(raw: bytes) -> AdmissionPolicy:
    """Compile a stored policy. An expression that does not compile fails when it is evaluated."""
    from kcm.runtime.cel.admission import (
        ANY,
        BOOLEAN,
        CONFIGURATION,
        PATCHES,
        TEXT,
        TEXT_OR_NULL,
        Expression,
        admission_environment,
    )
    from kcm.runtime.cel.policy_types import composed_type

    obj = decode_object(raw)
    spec = obj.get("spec") or {}
    params = spec.get("paramKind") is not None
    mutates = "mutations" in spec
    variables: dict[str, Expression] = {}
    types: dict[str, Type] = {}
    for variable in spec.get("variables") or ():
        environment = admission_environment(params=params, authorizer=True, variables=types)
        variables[variable["name"]] = made = Expression.compiled(variable.get("expression") or "", environment, ANY)
        types[variable["name"]] = composed_type(made.type)
    environment = admission_environment(params=params, authorizer=True, variables=types, mutates=mutates)
    quiet = admission_environment(params=params, authorizer=False, variables=types)
    conditions = admission_environment(params=params, authorizer=True)
    return AdmissionPolicy(
        name=name_of(obj),
        ignores_failures=spec.get("failurePolicy") == "Ignore",
        constraints=spec.get("matchConstraints"),
        param_kind=spec.get("paramKind"),
        conditions=tuple(
            Expression.compiled((condition.get("expression") or "").strip(), conditions, BOOLEAN)
            for condition in spec.get("matchConditions") or ()
        ),
        variables=variables,
        validations=tuple(
            Validation(
                expression=Expression.compiled((validation.get("expression") or "").strip(), environment, BOOLEAN),
                message=validation.get("message") or "",
                message_expression=Expression.compiled(validation["messageExpression"], quiet, TEXT)
                if validation.get("messageExpression")
                else None,
                reason=validation.get("reason") or "Invalid",
            )
            for validation in spec.get("validations") or ()
        ),
        annotations=tuple(
            (
                annotation["key"],
                Expression.compiled((annotation.get("valueExpression") or "").strip(), environment, TEXT_OR_NULL),
            )
            for annotation in spec.get("auditAnnotations") or ()
        ),
        mutations=tuple(
            Mutation(
                expression=Expression.compiled(
                    (
                        (mutation.get("jsonPatch") or mutation.get("applyConfiguration") or {}).get("expression") or ""
                    ).strip(),
                    environment,
                    PATCHES if mutation.get("patchType") == "JSONPatch" else CONFIGURATION,
                ),
                is_patch=mutation.get("patchType") == "JSONPatch",
            )
            for mutation in spec.get("mutations") or ()
        ),
        reinvoked_if_needed=spec.get("reinvocationPolicy") == "IfNeeded",
    )
