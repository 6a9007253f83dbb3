"""Finalizers: what has to be told outside before an object may go.

    if is_deleting(tenant):
        if TOLD in finalizers_of(tenant):
            yield from call(directory.remove, uid_of(tenant))  # raises where it is not certain
            yield from remove_finalizer(self._tenants, tenant, TOLD)
        return None
    tenant = yield from ensure_finalizer(self._tenants, tenant, TOLD)
    yield from call(directory.add, uid_of(tenant))

Both write the whole list, and so with the version that was looked at as precondition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcm.actors.reconciliation.commands import patch
from kcm.actors.reconciliation.reconciler import Step, step
from kcm.actors.reconciliation.steps import must, must_object
from kcm.protocols.messages.commands import Patch
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Object, finalizers_of, is_deleting, key_of, resource_version_of, uid_of
from kcm.protocols.resources import M, Resource
from kcm.runtime.tables.lister import Lister, check_lister

KUBERNETES = frozenset({"foregroundDeletion", "orphan"})  # without a domain


@step
def ensure_finalizer(lister: Lister[M], obj: Mapping[str, Any] | M, name: str) -> Step[M]:
    """Add the finalizer if the object lacks it; returns the object, which has it now.

    To be done before anything is made outside: whoever is stopped in between still gets to clean up. Raises
    CommandError if it was not written, and ValueError on an object that is being deleted, which takes no more of them.
    """
    _check(name)
    now = _as_shown(lister, obj)
    present = finalizers_of(now)
    if name in present:
        return lister.returned(now)
    if is_deleting(now):
        raise ValueError(f"{lister.resource} {key_of(now)} is being deleted, and takes no finalizer any more")
    return lister.returned((yield from must_object(_write(lister.resource, now, [*present, name]))))


@step
def remove_finalizer(lister: Lister[M], obj: Mapping[str, Any] | M, name: str) -> Step[None]:
    """Remove the finalizer if the object has it. To be done once the clean-up is confirmed: the object may go then.

    Raises CommandError if it was not written. An object that is gone, or is another by now, is no failure.
    """
    _check(name)
    now = _as_shown(lister, obj)
    if uid_of(now) != uid_of(lister.map_of(obj)):
        return
    present = finalizers_of(now)
    if name in present:
        rest = [each for each in present if each != name]
        yield from must(_write(lister.resource, now, rest or None), but=(NotFound,))


def _as_shown(lister: Lister[M], read: Mapping[str, Any] | M) -> Object:
    """The object with our own writes to it since it was read, if the table shows it."""
    check_lister("a step about finalizers", lister)
    obj = lister.map_of(read)
    shown = lister.maps.get(key_of(obj))
    return obj if shown is None else shown


def _write(resource: Resource, obj: Mapping[str, Any], names: Sequence[str] | None) -> Patch:
    meta = {"resourceVersion": resource_version_of(obj), "finalizers": names}
    return patch(resource, key_of(obj), {"metadata": meta})


def _check(name: str) -> None:
    """The server refuses a name without a domain, but for those of Kubernetes itself; here its author sees the line."""
    if not isinstance(name, str):
        raise TypeError(f"a finalizer is text, not {name!r}")
    if name in KUBERNETES:
        return
    domain, slash, rest = name.partition("/")
    if not (domain and slash and rest) or "/" in rest:
        raise ValueError(f"a finalizer is like example.com/name, not {name!r}")
