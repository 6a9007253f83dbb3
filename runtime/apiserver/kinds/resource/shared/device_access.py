"""Authorization of ResourceClaims: admin access to devices, and updates of a claim's status.

Requests with adminAccess require the label resource.kubernetes.io/admin-access: "true" on the namespace. A change of
status.allocation or status.reservedFor requires permission for the subresource resourceclaims/binding, and a change
of status.devices permission for resourceclaims/driver of each driver.

Source: kubernetes pkg/registry/resource/utils.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcm.protocols.objects import Object, labels_of, name_of, namespace_of
from kcm.runtime.apiserver.access.refusals import not_authorized
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden
from kcm.runtime.apiserver.registry.request_info import review_info
from kcm.runtime.apiserver.registry.strategy import Granting
from kcm.runtime.apiserver.registry.users import ACCOUNTS, Access, User
from kcm.runtime.apiserver.rules.names import dns_subdomain

ADMIN_LABEL = "resource.kubernetes.io/admin-access"
NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"
_ADMIN = f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
_GROUP = "resource.k8s.io"


def permit_requests(among: Granting, spec: Mapping[str, Any], namespace: str) -> list[FieldError]:
    """Return an error if a new claim or claim template requests adminAccess in a namespace without the label for it."""
    requests = (spec.get("devices") or {}).get("requests") or ()
    place = _first_set([(request.get("exactly") or {}).get("adminAccess") for request in requests])
    if place is None or _is_for_admins(among, namespace):
        return []
    return [forbidden(f"spec.devices.requests[{place}].adminAccess", _ADMIN)]


def permit_status(among: Granting, new: Object, old: Object, user: User, verb: str) -> list[FieldError]:
    """Return errors for changes of a claim's status that the user may not make. verb: "update" or "patch"."""
    now, before = new.get("status") or {}, old.get("status") or {}
    errors = list(_admin_errors(among, new, now, before))
    if any((now.get(part) or None) != (before.get(part) or None) for part in ("allocation", "reservedFor")):
        why = _refusal(among, user, {"verb": verb, "subresource": "binding"})
        if why:
            text = 'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding"'
            errors.append(forbidden("status.allocation", f'{text}, verb="{verb}" permission: {why}'))
    if now.get("allocation") is not None:
        errors += _driver_errors(among, new, _drivers(now, before), user, verb)
    return errors


def _admin_errors(
    among: Granting, claim: Object, now: Mapping[str, Any], before: Mapping[str, Any]
) -> Iterable[FieldError]:
    if _first_set(_admin_access(before)) is None:
        place = _first_set(_admin_access(now))
        if place is not None and not _is_for_admins(among, namespace_of(claim)):
            yield forbidden(f"status.allocation.devices.results[{place}].adminAccess", _ADMIN)


def _driver_errors(
    among: Granting, claim: Object, drivers: Iterable[str], user: User, verb: str
) -> Iterable[FieldError]:
    verbs = [f"arbitrary-node:{verb}"]
    if _is_token_of_node(user, _node_of(claim["status"]["allocation"])):
        verbs.insert(0, f"associated-node:{verb}")
    for driver in drivers:
        attributes = {"subresource": "driver", "namespace": namespace_of(claim), "name": driver}
        refusals = [_refusal(among, user, {**attributes, "verb": verb_}) for verb_ in verbs]
        if all(refusals):
            text = f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]"'
            yield forbidden("status.devices", f"{text} permission: {refusals[0]}")


def _refusal(among: Granting, user: User, attributes: Mapping[str, str]) -> str:
    """Return why the user may not perform this action on ResourceClaims; "" if it is permitted.

    attributes: attributes for the authorizer, beside group, version and resource
    """
    wanted = {"group": _GROUP, "version": "v1", "resource": "resourceclaims", **attributes}
    decision = among.access().authorize(Access(user, wanted))
    if decision.allowed:
        return ""
    return not_authorized(user.name, review_info(wanted), decision.reason).message


def _drivers(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """Return the drivers of the devices whose entries in status.devices change."""
    new, old = _devices(now), _devices(before)
    return sorted({key[0] for key in {*new, *old} if new.get(key) != old.get(key)})


def _devices(status: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    return {
        tuple(device.get(field) or "" for field in ("driver", "pool", "device", "shareID")): device
        for device in status.get("devices") or ()
    }


def _node_of(allocation: Mapping[str, Any]) -> str:
    """Return the name of the only node that the allocation's node selector matches; "" for any other selector."""
    terms = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if len(terms) != 1 or terms[0].get("matchExpressions") or len(terms[0].get("matchFields") or ()) != 1:
        return ""
    field = terms[0]["matchFields"][0]
    values = field.get("values") or []
    is_name = (field.get("key"), field.get("operator"), len(values)) == ("metadata.name", "In", 1)
    return values[0] if is_name else ""


def _is_token_of_node(user: User, node: str) -> bool:
    return bool(
        node and user.name.startswith(ACCOUNTS) and user.extra.get(NODE_OF_TOKEN) == (node,) and not dns_subdomain(node)
    )


def _admin_access(status: Mapping[str, Any]) -> list[Any]:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return [result.get("adminAccess") for result in results]


def _first_set(wanted: Sequence[Any]) -> int | None:
    return next((place for place, value in enumerate(wanted) if value), None)


def _is_for_admins(among: Granting, namespace: str) -> bool:
    found = next((namespace_ for namespace_ in among.objects("namespaces") if name_of(namespace_) == namespace), None)
    return found is not None and labels_of(found).get(ADMIN_LABEL) == "true"
