"""Parameter objects of policies: the stored objects that a binding's paramRef selects.

Source: apiserver pkg/admission/plugin/policy/generic/policy_dispatcher.go, CollectParams (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object, decode_object
from kcm.protocols.selectors import label_selector_of
from kcm.runtime.apiserver.admission.policies.configured import AdmissionPolicy, Binding
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition


class PolicyConfigurationError(Exception):
    """Invalid paramKind of a policy or paramRef of a binding, or a required parameter that does not exist."""


def param_definition(cluster: Cluster, policy: AdmissionPolicy) -> ResourceDefinition | None:
    """Return the definition of a policy's paramKind; None if the policy has no paramKind.

    Raises PolicyConfigurationError if the server has no such kind.
    """
    wanted = policy.param_kind
    if wanted is None:
        return None
    version, kind = wanted.get("apiVersion") or "", wanted.get("kind") or ""
    for definition in cluster.registry:
        if definition.kind == kind and definition.api_version == version:
            return definition
    raise PolicyConfigurationError(f"failed to find resource referenced by paramKind: '{version}, Kind={kind}'")


def parameters(
    cluster: Cluster, definition: ResourceDefinition | None, binding: Binding, namespace: str
) -> list[Object | None]:
    """Return the parameter objects of a binding. The policy is evaluated once for each entry.

    Returns [None] for a policy without parameters, and [] if no parameter object exists.

    definition: of the paramKind; None without paramKind
    namespace: of the object in the request, for a paramRef without a namespace

    Raises PolicyConfigurationError.
    """
    reference = binding.param_ref
    if definition is None or reference is None:
        return [None]
    if definition.namespaced:
        namespace = reference.get("namespace") or namespace
        if not namespace:
            raise PolicyConfigurationError(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
            )
    else:
        if reference.get("namespace"):
            raise PolicyConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        namespace = ""
    found = _selected_objects(cluster, definition, binding, namespace)
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise PolicyConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
    return found


def _selected_objects(
    cluster: Cluster, definition: ResourceDefinition, binding: Binding, namespace: str
) -> list[Object | None]:
    reference = binding.param_ref or {}
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        key = f"{namespace}/{name}" if namespace else name
        record = cluster.state.get(definition.storage, key)
        return [] if record is None else [_decoded(definition, record.raw)]
    if selector is None:
        raise PolicyConfigurationError("one of name or selector must be provided")
    chosen = label_selector_of(selector)
    collection = cluster.state.collection(definition.storage)
    return [
        _decoded(definition, collection.records[key].raw)
        for key in collection.keys(namespace)
        if chosen.matches(collection.records[key].labels)
    ]


def _decoded(definition: ResourceDefinition, raw: bytes) -> Object:
    return definition.shown(decode_object(raw))
