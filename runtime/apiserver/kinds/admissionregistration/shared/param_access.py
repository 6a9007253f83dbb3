"""Authorization of writes of admission policies and bindings with parameters.

The user must be permitted to read the parameter objects that a policy or binding refers to. Otherwise the policy would
disclose objects that the user cannot read.

Source: kubernetes pkg/registry/admissionregistration/{validating,mutating}admissionpolicy{,binding}/authz.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.errors.field_errors import FieldError, forbidden
from kcm.runtime.apiserver.registry.strategy import Granting
from kcm.runtime.apiserver.registry.users import MASTERS, Access, User

Permit = Callable[[Granting, Object, Object | None, User], list[FieldError]]


def permit_kind(among: Granting, new: Object, old: Object | None, user: User) -> list[FieldError]:
    """Return an error unless the user who writes a policy may get all objects of its paramKind.

    Members of system:masters are not checked, nor is an unchanged paramKind.
    """
    kind = new["spec"].get("paramKind")
    if kind is None or MASTERS in user.groups or (old is not None and old["spec"].get("paramKind") == kind):
        return []
    resource, _ = _resource(among, kind)
    if _may(among, user, {**resource, "verb": "get", "name": "*", "namespace": "*"}):
        return []
    kind_text = f"kind={kind.get('kind') or ''}, apiVersion={kind.get('apiVersion') or ''}"
    text = (
        f'user {format_user(user)} must have "get" permission on all objects of the referenced paramKind ({kind_text})'
    )
    return [forbidden("spec.paramKind", text)]


def permit_reference(policies: str, *, swapped: bool = False) -> Permit:
    """Return the hook `Strategy.permit` of a kind of binding.

    The hook returns an error unless the user may read the objects that paramRef refers to: get them by name, or list
    them by selector.

    policies: storage name of the policies that the binding may name (ResourceDefinition.storage)
    swapped: whether the error text has user and verb in the wrong order, as upstream's has for mutating bindings
    """

    def permit(among: Granting, new: Object, old: Object | None, user: User) -> list[FieldError]:
        spec, before = new["spec"], {} if old is None else old["spec"]
        reference = spec.get("paramRef")
        if reference is None or MASTERS in user.groups:
            return []
        if (before.get("paramRef"), before.get("policyName")) == (reference, spec.get("policyName")):
            return []
        name = spec.get("policyName") or ""
        policy = next((obj for obj in among.objects(policies) if name_of(obj) == name), None)
        kind = None if policy is None else policy["spec"].get("paramKind")
        resource, is_known = ({"group": "*", "version": "*", "resource": "*"}, True)
        if kind is not None:
            resource, is_known = _resource(among, kind)
        verb = "get" if reference.get("name") else "list"
        where = {"name": reference.get("name") or "", "namespace": reference.get("namespace") or ""}
        if _may(among, user, {**resource, **where, "verb": verb}):
            return []
        lacks = f'user {format_user(user)} does not have "{verb}" permission'
        if policy is None:
            why = f"unable to get policy {name} to determine minimum required permissions and {lacks} for all groups, "
            why += "versions and resources"
        elif not is_known:
            of = f"&{{{kind.get('apiVersion') or ''} {kind.get('kind') or ''}}}" if kind is not None else "<nil>"
            why = f"unable to resolve paramKind {of} to determine minimum required permissions and {lacks} for all "
            why += "groups, versions and resources"
        else:
            first, second = (verb, format_user(user)) if swapped else (format_user(user), verb)
            why = f'user {first} does not have "{second}" permission on the object referenced by paramRef'
        return [forbidden("spec.paramRef", why)]

    return permit


def format_user(user: User) -> str:
    """Format a user like Go's %v formats a *user.DefaultInfo."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"


def _resource(among: Granting, kind: Object) -> tuple[dict[str, Any], bool]:
    """Return the resource of a kind as attributes of an access review, and whether the server serves the kind."""
    group, slash, version = (kind.get("apiVersion") or "").rpartition("/")
    plural = among.plural_of(kind.get("apiVersion") or "", kind.get("kind") or "")
    return {"group": group if slash else "", "version": version, "resource": plural or "*"}, bool(plural)


def _may(among: Granting, user: User, wanted: dict[str, Any]) -> bool:
    return among.access().authorize(Access(user, wanted)).allowed
