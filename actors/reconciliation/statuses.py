"""patch_status: what an object's status says of what was observed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.reconciliation.commands import patch
from kcm.actors.reconciliation.differences import differences
from kcm.actors.reconciliation.reconciler import Step, step
from kcm.actors.reconciliation.steps import must
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.models import as_object
from kcm.protocols.objects import decode_object, key_of, metadata, resource_version_of, uid_of
from kcm.protocols.resources import M
from kcm.runtime.tables.lister import Lister, check_lister


@step
def patch_status(lister: Lister[M], obj: Mapping[str, Any] | M, status: Any) -> Step[M | None]:
    """Write what differs of these fields of the status; nothing where nothing differs. Fields that are not named stay,
    None removes one, and a list (conditions) is written as a whole.

    obj: what the status was made from. Returns the object as it is then, None if it is gone, or another by now.

    It never goes backwards. The version that was looked at is the precondition: the object as the lister shows it, with
    our own writes; but `obj` itself where the spec is another by now, and so the status out of date. A status whose
    observedGeneration is lower than the stored one is not sent.

    A patch that changes nothing, as of a field that the schema does not have, is logged and not repeated until the
    object or its wanted changes are others, or the controller resyncs. Raises CommandError, for a Conflict too: the
    key is retried with what is there by then.
    """
    check_lister("patch_status", lister)
    obj, status = lister.map_of(obj), as_object(status)
    resource, key = lister.resource, key_of(obj)
    if lister.metadata_only:
        raise ValueError(f"{resource} are read metadata-only: nothing tells what their status says")
    shown = lister.maps.get(key)
    if shown is None or uid_of(shown) != uid_of(obj):
        return None
    stored = shown.get("status") or {}
    if _observed(status) is not None and (_observed(stored) or 0) > (_observed(status) or 0):
        return lister.returned(shown)
    changes = differences(status, stored)
    if not changes or lister.ineffective.holds_back(resource, shown, changes, subresource="status"):
        return lister.returned(shown)
    is_same_spec = metadata(shown).get("generation") == metadata(obj).get("generation")
    version = resource_version_of(shown if is_same_spec else obj)
    body = {"metadata": {"resourceVersion": version}, "status": changes}
    outcome = yield from must(patch(resource, key, body, subresource="status"), but=(NotFound,))
    if not isinstance(outcome, Done):
        return None
    patched = decode_object(outcome.body)
    lister.ineffective.patched(resource, shown, patched, changes, subresource="status")
    return lister.returned(patched)


def _observed(status: Mapping[str, Any]) -> int | None:
    generation = status.get("observedGeneration")
    return generation if isinstance(generation, int) else None
