"""Variables of admission expressions: the request and its objects, as policies and webhooks see them.

Source: apiserver pkg/admission/plugin/cel/{activation,condition}.go, pkg/cel/library/authz.go (v1.36).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kcm.protocols.objects import Object, decode_object
from kcm.runtime.apiserver.admission.attributes import NAMESPACES, Attributes
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.subresources import GroupVersionKind
from kcm.runtime.apiserver.registry.users import ACCOUNTS, Access, User

if TYPE_CHECKING:
    from kcm.runtime.cel.libraries import authorization
    from kcm.runtime.cel.values import Value

_NAMESPACE_FIELDS = frozenset(
    {
        *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
        *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers"),
    }
)


def shown(asked: Attributes, definition: ResourceDefinition, obj: Object | None) -> Object | None:
    """Convert an object from the request's API version to the version of another definition of the same resource.

    The body of a subresource is returned unchanged.
    """
    if obj is None or definition is asked.definition or not asked.is_whole:
        return obj
    to, back = asked.definition.to_storage, definition.from_storage
    stored = obj if to is None else to(obj)
    return stored if back is None else back(stored)


def seen(
    cluster: Cluster,
    asked: Attributes,
    definition: ResourceDefinition,
    kind: GroupVersionKind,
    *,
    params: Object | None = None,
    with_namespace: bool = True,
) -> dict[str, Value]:
    """Return the CEL variables of a policy: object, oldObject, request, namespaceObject, params and authorizer.

    definition, kind: API version in which the expressions see the object
    params: the parameter object; None if the binding has no parameters
    with_namespace: whether namespaceObject is set

    Raises StatusError (404) if the namespace does not exist.
    """
    from kcm.runtime.cel.admission import names

    return names(
        new=shown(asked, definition, asked.obj),
        old=shown(asked, definition, asked.old),
        request=request_of(asked, definition, kind),
        namespace=_namespace(cluster, asked) if with_namespace else None,
        params=params,
        authorize=asking(cluster, asked.call.user),
    )


def request_of(asked: Attributes, wanted: ResourceDefinition, kind: GroupVersionKind) -> dict[str, Any]:
    """Return the fields of an AdmissionRequest, without empty ones and without uid, object and oldObject.

    wanted, kind: the API version for `resource` and `kind`; `requestResource` and `requestKind` are the request's
    """
    call, definition = asked.call, asked.definition
    user = call.user
    info: dict[str, Any] = {"username": user.name, "uid": user.uid, "groups": list(user.groups)}
    info["extra"] = {key: list(values) for key, values in user.extra.items()}
    request: dict[str, Any] = {
        "kind": _kind(kind),
        "resource": _resource(wanted.group, wanted.version, wanted.plural),
        "subResource": asked.subresource,
        "requestKind": _kind(asked.kind),
        "requestResource": _resource(definition.group, definition.version, definition.plural),
        "requestSubResource": asked.subresource,
        "name": asked.name,
        "namespace": asked.namespace,
        "operation": asked.operation,
        "userInfo": {field: value for field, value in info.items() if value},
        "dryRun": call.dry_run or asked.options.get("dryRun") == ["All"],
        "options": asked.options,
    }
    return {field: value for field, value in request.items() if value != ""}


def _kind(kind: GroupVersionKind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(group: str, version: str, plural: str) -> dict[str, str]:
    return {"group": group, "version": version, "resource": plural}


def _namespace(cluster: Cluster, asked: Attributes) -> Object | None:
    """Return the namespace of the object, with the metadata that expressions may read. Raises StatusError (404).

    Returns None for a cluster-scoped object and for a Namespace.
    """
    if not asked.namespace or asked.definition.storage == NAMESPACES:
        return None
    record = cluster.state.get(NAMESPACES, asked.namespace)
    if record is None:
        raise status_errors.not_found("", NAMESPACES, asked.namespace)
    whole = decode_object(record.raw)
    meta = {field: value for field, value in whole["metadata"].items() if field in _NAMESPACE_FIELDS}
    return {"metadata": meta, "spec": whole.get("spec") or {}, "status": whole.get("status") or {}}


def asking(cluster: Cluster, user: User) -> authorization.Ask:
    """Return the function behind CEL's `authorizer`: it checks permissions of the user, or of a service account."""
    from kcm.runtime.cel.libraries.authorization import CheckAttributes as Asked
    from kcm.runtime.cel.libraries.authorization import DecisionValue

    def ask(asked: Asked) -> DecisionValue:
        who = user
        if asked.account is not None:
            namespace, name = asked.account
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
            who = User(f"{ACCOUNTS}{namespace}:{name}", groups=groups)
        if asked.path:
            wanted: dict[str, Any] = {"path": asked.path, "verb": asked.verb}
        else:
            wanted = {
                "verb": asked.verb,
                "group": asked.group,
                "version": "*",
                "resource": asked.resource,
                "subresource": asked.subresource,
                "namespace": asked.namespace,
                "name": asked.name,
            }
        decision = cluster.authorize(Access(who, {field: value for field, value in wanted.items() if value}))
        return DecisionValue(decision.allowed, decision.reason)

    return ask
