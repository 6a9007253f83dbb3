"""Permissions that specs of controllers need, for generated RBAC rules and for checks of requests in simulations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerSpec
from kcm.actors.reconciliation.watches import VERBS
from kcm.protocols.objects import Object
from kcm.protocols.resources import EVENTS, Resource

_ONE_NAME = re.compile(r"metadata\.name=([a-z0-9.-]+)")  # a field selector of one object, which RBAC can name
ENSURE = ("get", "create", "patch")


class Grant(NamedTuple):
    """Permission for one resource.

    namespace: "" for all namespaces and for objects in no namespace.
    resource: with the subresource: "tenants/status".
    names: of the objects; empty for all.
    """

    namespace: str
    group: str
    resource: str
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def allows(self, *, verb: str, group: str, resource: str, namespace: str, name: str) -> bool:
        """Report whether the permission covers a request. resource: with the subresource."""
        return (
            verb in self.verbs
            and self.group in (group, "*")
            and self.resource in (resource, "*")
            and self.namespace in ("", namespace)
            and (not self.names or name in self.names)
        )


def declares_permissions(spec: ControllerSpec) -> bool:
    return spec.permissions is not None


def grants_of(spec: ControllerSpec, options: Options, cluster: str = "") -> tuple[Grant, ...]:
    """Return the permissions of a controller: `list` and `watch` of its watches and reads, and those that it declares.

    All controllers may record events, in the namespaces of their other permissions.

    options: on which namespaces and watches may depend.
    cluster: of which the permissions are, if the controller works on several.

    Raises TypeError or ValueError for invalid namespaces.
    """
    spec = spec.adapted(spec, options)
    found: list[Grant] = []
    where: dict[str, set[str] | None] = {}  # by resource: the namespaces of its watches; None for all
    selected = [reading.resolved(options) for reading in spec.selecting if reading.resource.cluster == cluster]
    declared = [permission for permission in spec.permissions or () if permission.resource.cluster == cluster]
    if cluster and not selected and not declared:
        return ()
    for selecting in selected:
        resource, namespaces = selecting.resource, selecting.selection.namespaces
        known = where.get(resource.id, set())
        where[resource.id] = None if namespaces is None or known is None else {*known, *namespaces}
    for selecting in selected:
        resource, only = selecting.resource, _ONE_NAME.fullmatch(selecting.fields)
        names = (only[1],) if only else ()
        found += _grants(resource, "", ("list", "watch"), where[resource.id], names)
    if spec.discovers is not None:
        found.append(Grant("", "*", "*", ("list", "watch")))
    for permission in declared:
        spaces = where.get(permission.resource.id) if permission.namespaces is None else permission.namespaces
        verbs = [verb for each in permission.verbs for verb in (ENSURE if each == "ensure" else (each,))]
        found += _grants(permission.resource, permission.subresource, verbs, spaces, permission.names)
    where_events = sorted({grant.namespace for grant in found}) if found and is_namespaced(found) else [""]
    found += [Grant(namespace, EVENTS.group, EVENTS.plural, ("create", "patch")) for namespace in where_events]
    return tuple(dict.fromkeys(found))


def is_namespaced(grants: Iterable[Grant]) -> bool:
    """Report whether all permissions are for single namespaces."""
    return all(grant.namespace for grant in grants)


def _grants(
    resource: Resource[Any],
    subresource: str,
    verbs: Iterable[str],
    namespaces: Iterable[str] | None,
    names: tuple[str, ...] = (),
) -> list[Grant]:
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return [
        Grant(namespace, resource.group, name, in_order(verbs), names)
        for namespace in ([""] if namespaces is None else sorted(namespaces))
    ]


def in_order(verbs: Iterable[str]) -> tuple[str, ...]:
    wanted = {*verbs}
    return tuple(verb for verb in VERBS if verb in wanted)


def policy_rules(grants: Iterable[Grant]) -> dict[str, list[Object]]:
    """Return PolicyRules by namespace, "" for a ClusterRole. Resources of equal verbs share a rule."""
    verbs: dict[tuple[str, str, str, tuple[str, ...]], set[str]] = {}
    for grant in grants:
        verbs.setdefault((grant.namespace, grant.group, grant.resource, grant.names), set()).update(grant.verbs)
    shared: dict[tuple[str, str, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for (namespace, group, resource, names), granted in sorted(verbs.items()):
        shared.setdefault((namespace, group, names, in_order(granted)), []).append(resource)
    rules: dict[str, list[Object]] = {}
    for (namespace, group, names, granted_verbs), resources in shared.items():
        rules.setdefault(namespace, []).append(policy_rule(group, resources, granted_verbs, names))
    return rules


def policy_rule(group: str, resources: Sequence[str], verbs: Sequence[str], names: Sequence[str] = ()) -> Object:
    rule: Object = {"apiGroups": [group], "resources": [*resources], "verbs": [*verbs]}
    return {**rule, "resourceNames": [*names]} if names else rule


def grants_by_client(
    specs: Iterable[ControllerSpec], options: Options, cluster: str = ""
) -> Mapping[str, tuple[Grant, ...] | None]:
    """Return the permissions of each API client of these controllers; None if a spec declares none.

    cluster: see grants_of.
    """
    found: dict[str, tuple[Grant, ...] | None] = {}
    for spec in specs:
        client = spec.client or spec.name
        before = found.get(client, ())
        if before is None or not declares_permissions(spec):
            found[client] = None
        else:
            found[client] = (*before, *grants_of(spec, options, cluster))
    return found
