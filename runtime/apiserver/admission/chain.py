"""Admission plugins, in the order in which kube-apiserver runs them.

Mutating plugins (admit_create, admit_update) run before the object is validated against the rules of its kind, and
validating plugins (check_create, check_update) run after it. Admission policies and webhooks are the last in both
groups, except for ResourceQuota, which runs after them.

Objects are in the storage version, unless stated otherwise; policies and webhooks receive the request's version.

Source: kubernetes pkg/kubeapiserver/options/plugins.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import orjson
from msgspec.structs import replace

from kcm.protocols.admission_plugins import (
    CERTIFICATE_APPROVAL,
    CERTIFICATE_SIGNING,
    CERTIFICATE_SUBJECT_RESTRICTION,
    CLUSTER_TRUST_BUNDLE_ATTEST,
    DEFAULT_TOLERATION_SECONDS,
    DENY_EXTERNAL_IPS,
    LIMIT_RANGER,
    MUTATING_POLICY,
    NAMESPACE_LIFECYCLE,
    NODE_RESTRICTION,
    OWNER_REFERENCES,
    POD_GROUP_PROTECTION,
    POD_GROUP_WORKLOAD_EXISTS,
    POD_TOPOLOGY_LABELS,
    PRIORITY,
    RESOURCE_QUOTA,
    VALIDATING_POLICY,
)
from kcm.protocols.objects import Key, Object, decode_object
from kcm.runtime.apiserver.admission import (
    always_pull_images,
    certificate_approval,
    certificate_signing,
    certificate_subject_restriction,
    cluster_trust_bundle_attest,
    default_classes,
    default_toleration_seconds,
    deny_service_external_ips,
    limit_ranger,
    namespace_lifecycle,
    owner_references_permission_enforcement,
    persistent_volume_claim_resize,
    pod_group_protection,
    pod_group_workload_exists,
    pod_topology_labels,
    priority,
    resource_quota,
    runtime_class,
    service_account,
    storage_object_in_use_protection,
    taint_nodes_by_condition,
)
from kcm.runtime.apiserver.admission.attributes import CREATE, DELETE, UPDATE, Attributes, attributes_of
from kcm.runtime.apiserver.admission.node_restriction import admission as node_restriction
from kcm.runtime.apiserver.admission.pod_security import admission as pod_security
from kcm.runtime.apiserver.admission.policies import configured as policies
from kcm.runtime.apiserver.admission.policies import mutating, validating
from kcm.runtime.apiserver.admission.resource_quota import Charge, charge
from kcm.runtime.apiserver.admission.webhooks.configured import MUTATING, VALIDATING, are_configured
from kcm.runtime.apiserver.admission.webhooks.dispatcher import run_mutating_webhooks, run_validating_webhooks
from kcm.runtime.apiserver.core.cluster import Cluster, Remarks, RoutedRequest, stored_form
from kcm.runtime.apiserver.core.long_computations import carried_out, key_of
from kcm.runtime.apiserver.core.metadata import settle_namespace
from kcm.runtime.apiserver.core.removal import admit_all
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.users import NODES

__all__ = [
    "Charge",
    "admit_body",
    "admit_collection_delete",
    "admit_connect",
    "admit_create",
    "admit_delete",
    "admit_subresource",
    "admit_update",
    "charge",
    "check_create",
    "check_update",
    "mutate_update",
]

PODS, SCALE, BINDING = "pods", "scale", "binding"
_SET_LATER = ("uid", "creationTimestamp", "generation")  # what upstream sets after webhooks have changed a new object


def admit_create(
    cluster: Cluster, definition: ResourceDefinition, obj: Object, call: RoutedRequest | None = None
) -> Object:
    """Run mutating admission on a new object, and return the result. Raises StatusError.

    call: the request; None for an object that the server itself creates, without policies and webhooks
    """
    _mutate_new(cluster, definition, obj, call)
    if call is None or not _has_mutators(cluster):
        return obj
    meta = obj["metadata"]
    ours = {field: meta[field] for field in _SET_LATER if field in meta}
    shown = {**obj, "metadata": {field: value for field, value in meta.items() if field not in ours}}
    changed = _run_dynamic_mutation(
        call, CREATE, cluster, shown, None, lambda obj: _mutate_new(cluster, definition, obj, call)
    )
    settle_namespace(call.route, changed)
    changed["metadata"].update(ours)
    return changed


def admit_update(cluster: Cluster, call: RoutedRequest, new: Object, old: Object) -> Object:
    """Run NodeRestriction and the mutating policies and webhooks on an update; return the result. Raises StatusError.

    If policies or webhooks are configured, the built-in mutating plugins run before them, and again after each change.
    """
    if NODE_RESTRICTION in cluster.settings.plugins:
        node_restriction.admit(cluster, call, UPDATE, new, old)
    if not _has_mutators(cluster) or call.route.subresource == SCALE:
        return new
    definition, whole = call.definition, call.route.subresource == ""

    def change(obj: Object) -> None:
        definition.strategy.set_defaults(obj)
        definition.strategy.set_times(obj, None, cluster.timestamp())
        if whole:
            mutate_update(cluster, definition, obj, old)

    change(new)
    return _run_dynamic_mutation(call, UPDATE, cluster, new, old, change)


def mutate_update(cluster: Cluster, definition: ResourceDefinition, new: Object, old: Object) -> None:
    """Run the built-in mutating plugins on an updated object, in place."""
    if definition.storage != PODS:
        return
    always_pull_images.admit(cluster, new, old)
    if PRIORITY in cluster.settings.plugins:
        priority.admit_update(definition, new, old)
    if DEFAULT_TOLERATION_SECONDS in cluster.settings.plugins:
        default_toleration_seconds.admit(definition, new)


def admit_subresource(cluster: Cluster, call: RoutedRequest, new: Object) -> None:
    """Set the default requests and limits of a pod that is resized, in place."""
    if call.route.subresource == limit_ranger.RESIZE and LIMIT_RANGER in cluster.settings.plugins:
        limit_ranger.set_defaults(cluster, call.definition, new)


def admit_body(
    cluster: Cluster,
    call: RoutedRequest,
    kind: ResourceDefinition,
    body: Object,
    old: Callable[[], Object] | None = None,
) -> Object:
    """Run mutating and validating admission on a body that is not stored, and return the result. Raises StatusError.

    kind: definition of the body: a subresource (Scale, Eviction, Binding, TokenRequest) or a review
    old: returns the body before an update, such as the current Scale; None for a creation
    """
    operation = CREATE if old is None else UPDATE
    if NODE_RESTRICTION in cluster.settings.plugins:
        node_restriction.admit(cluster, call, operation, body, None if old is None else old())
    if call.route.subresource == BINDING and POD_TOPOLOGY_LABELS in cluster.settings.plugins:
        pod_topology_labels.admit_binding(cluster, body)
    if _has_mutators(cluster):
        attributes = attributes_of(call, operation, obj=body, old=None if old is None else old())
        body = _run_mutators(cluster, attributes, lambda obj: obj, kind) or body
    if _has_validators(cluster):
        _run_validators(cluster, attributes_of(call, operation, obj=body, old=None if old is None else old()))
    return body


def admit_connect(cluster: Cluster, attributes: Attributes) -> None:
    """Run policies and webhooks on a request to connect to a pod, a node or a Service. Raises StatusError."""
    if _has_mutators(cluster):
        changed = _run_mutators(cluster, attributes, lambda obj: obj)
        attributes = attributes._replace(obj=changed)
    if _has_validators(cluster):
        _run_validators(cluster, attributes)


def check_create(
    cluster: Cluster, definition: ResourceDefinition, obj: Object, call: RoutedRequest | None = None
) -> list[Charge]:
    """Run validating admission on a new object. Raises StatusError.

    Returns the charges to ResourceQuotas, which must be written in the same commit as the object.

    call: the request; None for an object that the server itself creates, without policies and webhooks
    """
    plugins = cluster.settings.plugins
    if LIMIT_RANGER in plugins:
        limit_ranger.admit_create(cluster, definition, obj)
    if definition.storage == PODS:
        service_account.check_create(cluster, obj)
        runtime_class.check_create(cluster, obj)
    elif POD_GROUP_WORKLOAD_EXISTS in plugins and definition.storage == pod_group_workload_exists.GROUPS:
        pod_group_workload_exists.check_create(cluster, definition, obj)
    elif CERTIFICATE_SUBJECT_RESTRICTION in plugins:
        certificate_subject_restriction.validate_create(definition, obj)
    if call is not None:
        pod_security.check(cluster, call, obj)
        _check_write(cluster, call, obj)
    if call is not None and _has_validators(cluster):
        _run_validators(cluster, attributes_of(call, CREATE, obj=_in_request_version(definition, obj)))
    if RESOURCE_QUOTA not in plugins:
        return []
    return resource_quota.admit(cluster, resource_quota.QuotaRequest(definition, CREATE, "", obj))


def check_update(cluster: Cluster, call: RoutedRequest, new: Object, old: Object) -> list[Charge]:
    """Run validating admission on an update. Raises StatusError.

    Returns the charges to ResourceQuotas, which must be written in the same commit as the object.
    """
    definition, subresource = call.definition, call.route.subresource
    plugins = cluster.settings.plugins
    if LIMIT_RANGER in plugins:
        limit_ranger.admit_update(cluster, definition, subresource, new, old)
    pod_security.check(cluster, call, new, old)
    _check_write(cluster, call, new, old)
    persistent_volume_claim_resize.admit_update(cluster, call, new, old)
    if CERTIFICATE_APPROVAL in plugins:
        certificate_approval.validate_update(cluster, call, old)
    if CERTIFICATE_SIGNING in plugins:
        certificate_signing.validate_update(cluster, call, new, old)
    if subresource != SCALE and _has_validators(cluster):
        obj, before = _in_request_version(definition, new), _in_request_version(definition, old)
        _run_validators(cluster, attributes_of(call, UPDATE, obj=obj, old=before))
    if RESOURCE_QUOTA not in plugins:
        return []
    return resource_quota.admit(cluster, resource_quota.QuotaRequest(definition, UPDATE, subresource, new, old))


def _check_write(cluster: Cluster, call: RoutedRequest, new: Object, old: Object | None = None) -> None:
    """Run the validating plugins that check creations and updates by the same rules. Raises StatusError (403).

    old: the stored object; None for a creation
    """
    if OWNER_REFERENCES in cluster.settings.plugins:
        owner_references_permission_enforcement.validate(cluster, call, new, old)
    if CLUSTER_TRUST_BUNDLE_ATTEST in cluster.settings.plugins:
        cluster_trust_bundle_attest.validate(cluster, call, new, old)
    if DENY_EXTERNAL_IPS in cluster.settings.plugins:
        deny_service_external_ips.validate(call, new, old)


def admit_delete(cluster: Cluster, call: RoutedRequest, key: Key, options: Object) -> Callable[[Object], None]:
    """Check the key of an object to delete, and return a function that runs admission on the object itself.

    options: the DeleteOptions

    Both this function and the returned one raise StatusError.
    """
    if NAMESPACE_LIFECYCLE in cluster.settings.plugins:
        namespace_lifecycle.admit_delete(call.definition, key)
    return admit_collection_delete(cluster, call, options)


def admit_collection_delete(cluster: Cluster, call: RoutedRequest, options: Object) -> Callable[[Object], None]:
    """Return a function that runs admission on an object to delete: NodeRestriction, policies and webhooks.

    options: the DeleteOptions

    The returned function raises StatusError.
    """
    restricts = NODE_RESTRICTION in cluster.settings.plugins and NODES in call.user.groups
    if not restricts and not _has_mutators(cluster) and not _has_validators(cluster):
        return admit_all

    def admit_object(old: Object) -> None:
        if restricts:
            node_restriction.admit(cluster, call, DELETE, None, old)
        attributes = attributes_of(call, DELETE, old=_in_request_version(call.definition, old), options=options)
        if are_configured(cluster, MUTATING):
            run_mutating_webhooks(cluster, attributes, lambda obj: obj)
        _run_validators(cluster, attributes)

    return admit_object


def _mutate_new(cluster: Cluster, definition: ResourceDefinition, obj: Object, call: RoutedRequest | None) -> None:
    """Run the built-in mutating plugins on a new object, in place. Raises StatusError (403, 404).

    call: the request; None for an object that the server itself creates
    """
    plugins, is_pod = cluster.settings.plugins, definition.storage == PODS
    if NAMESPACE_LIFECYCLE in plugins:
        namespace_lifecycle.admit_create(cluster, definition, obj)
    if LIMIT_RANGER in plugins:
        limit_ranger.set_defaults(cluster, definition, obj)
    if is_pod:
        service_account.admit_create(cluster, obj)
    if call is not None and NODE_RESTRICTION in plugins:
        node_restriction.admit(cluster, call, CREATE, obj)
    if is_pod:
        always_pull_images.admit(cluster, obj)
        if PRIORITY in plugins:
            priority.admit_create(cluster, definition, obj)
        if DEFAULT_TOLERATION_SECONDS in plugins:
            default_toleration_seconds.admit(definition, obj)
        runtime_class.admit_create(cluster, obj)
        if POD_TOPOLOGY_LABELS in plugins:
            pod_topology_labels.admit_pod(cluster, obj)
    else:
        taint_nodes_by_condition.admit_create(cluster, definition, obj)
        storage_object_in_use_protection.admit_create(cluster, definition, obj)
        if POD_GROUP_PROTECTION in plugins:
            pod_group_protection.admit_create(definition, obj)
        default_classes.admit_create(cluster, definition, obj)


def _run_dynamic_mutation(
    call: RoutedRequest,
    operation: str,
    cluster: Cluster,
    new: Object,
    old: Object | None,
    change: Callable[[Object], None],
) -> Object:
    """Run the mutating policies and webhooks, and return the resulting object in the storage version.

    change: runs the built-in mutating plugins in place; called again after policies or webhooks have changed the object

    Raises StatusError.
    """
    definition = call.definition

    def rerun_plugins(shown: Object) -> Object:
        stored = stored_form(definition, shown)
        if definition.namespaced:  # A patch may have removed it; upstream's plugins use the request's namespace.
            stored["metadata"].setdefault("namespace", call.route.namespace)
        change(stored)
        return _in_request_version(definition, stored)

    before = None if old is None else _in_request_version(definition, old)
    attributes = attributes_of(call, operation, obj=_in_request_version(definition, new), old=before)
    changed = _run_mutators(cluster, attributes, rerun_plugins)
    assert changed is not None
    return stored_form(definition, changed)


def _has_mutators(cluster: Cluster) -> bool:
    """Report whether mutating policies or webhooks are configured."""
    return are_configured(cluster, MUTATING) or (
        MUTATING_POLICY in cluster.settings.plugins and policies.are_configured(cluster, policies.MUTATING)
    )


def _has_validators(cluster: Cluster) -> bool:
    return are_configured(cluster, VALIDATING) or (
        VALIDATING_POLICY in cluster.settings.plugins and policies.are_configured(cluster, policies.VALIDATING)
    )


def _run_mutators(
    cluster: Cluster,
    attributes: Attributes,
    plugins: Callable[[Object], Object],
    body: ResourceDefinition | None = None,
) -> Object | None:
    """Run the mutating policies, then the mutating webhooks, and return the resulting object in the request's version.

    Policies with reinvocationPolicy IfNeeded run again after webhooks have changed the object.

    plugins: returns the object after another run of the built-in plugins
    body: definition of the body of a subresource or review; None for an object of the requested resource
    """
    change = plugins
    if MUTATING_POLICY in cluster.settings.plugins and policies.are_configured(cluster, policies.MUTATING):
        changed = _evaluate_policies(cluster, attributes, lambda given: mutating.mutate(cluster, given, plugins))
        attributes = attributes._replace(obj=changed)

        def change(obj: Object) -> Object:
            settled = plugins(obj)
            again = attributes._replace(obj=settled)
            return _evaluate_policies(cluster, again, lambda given: mutating.reinvoke(cluster, given)) or settled

    return (
        run_mutating_webhooks(cluster, attributes, change, body)
        if are_configured(cluster, MUTATING)
        else attributes.obj
    )


def _run_validators(cluster: Cluster, attributes: Attributes) -> None:
    if VALIDATING_POLICY in cluster.settings.plugins and policies.are_configured(cluster, policies.VALIDATING):
        _evaluate_policies(cluster, attributes, lambda given: validating.validate(cluster, given))
    if are_configured(cluster, VALIDATING):
        run_validating_webhooks(cluster, attributes)


class _PolicyResult(NamedTuple):
    obj: Object | None
    remarks: Remarks
    refusal: StatusError | None


def _evaluate_policies(
    cluster: Cluster, attributes: Attributes, run: Callable[[Attributes], Object | None]
) -> Object | None:
    """Evaluate policies as a long computation, and return the resulting object. Raises StatusError.

    If the computation exceeds the time slice of the request, the request is suspended and later executed again with the
    cached result. The result therefore includes the warnings and audit annotations, to be added to each execution.

    run: evaluates the policies for the given attributes
    """

    def evaluate() -> _PolicyResult:
        remarks, obj, refusal = Remarks(), None, None
        try:
            obj = run(attributes._replace(call=replace(attributes.call, remarks=remarks)))
        except StatusError as err:
            refusal = err
        return _PolicyResult(obj, remarks, refusal)

    def key() -> bytes:
        user, route = attributes.call.user, attributes.call.route
        who = user.name, user.uid, user.groups, {name: list(values) for name, values in user.extra.items()}
        where = route.definition, route.namespace, route.name, route.subresource, sorted(attributes.call.query.items())
        return key_of(
            attributes.operation,
            attributes.kind,
            attributes.name,
            attributes.obj,
            attributes.old,
            attributes.options,
            who,
            where,
        )

    found = carried_out(cluster, key, evaluate)
    attributes.call.warn_all(found.remarks.warnings.texts)
    for name, text in found.remarks.annotations.items():
        attributes.call.annotate(name, text)
    if found.refusal is not None:
        raise found.refusal
    if found.obj is None or found.obj is attributes.obj or cluster.allowance is None:
        return found.obj
    # The object is changed further, and other attempts may get the same result: return a copy.
    copy: Object = decode_object(orjson.dumps(found.obj))
    return copy


def _in_request_version(definition: ResourceDefinition, obj: Object) -> Object:
    """Convert an object from the storage version to the request's."""
    return obj if definition.from_storage is None else definition.from_storage(obj)
