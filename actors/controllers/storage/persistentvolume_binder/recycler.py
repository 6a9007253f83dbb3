"""Recycling of released volumes: a recycler pod deletes the files of a volume, then the volume is available again.

Source: kubernetes v1.36 pkg/controller/volume/persistentvolume/pv_controller.go (recycleVolumeOperation);
pkg/volume/util/recyclerclient. Differences:
- A recycler pod that was created before a restart is reused. Upstream deletes it, and the volume is Failed until its
  next sync.
- The recycler pod is deleted before the volume becomes available.
- The events of the pod are copied to the volume when the pod has finished. Upstream watches them, and copies them at
  once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcm.actors.controllers.storage.persistentvolume_binder.plugins import plugin_of
from kcm.actors.controllers.storage.persistentvolume_binder.recycler_pod import (
    PREFIX,
    Recycler,
    failure_of,
    is_recycler_of,
    recycler_key,
    recycler_pod,
)
from kcm.actors.controllers.storage.persistentvolume_binder.volumes import Volumes
from kcm.actors.controllers.storage.persistentvolume_binder.writes import Writes
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS
from kcm.actors.reconciliation import (
    Because,
    Change,
    Index,
    Interest,
    Reconciliation,
    Step,
    create,
    delete,
    list_live,
    must,
    perform,
    record,
)
from kcm.protocols.messages.events import RecordType
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound
from kcm.protocols.objects import (
    Key,
    Object,
    decode_object,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    split_key,
    uid_of,
)
from kcm.protocols.resources import EVENTS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.volumes import is_pod_ended, key_of_reference
from kcm.runtime.tables.tables import Tables

FAILED = "VolumeFailedRecycle"


def _is_recycler(pod: Object) -> tuple[str, ...]:
    return ("",) if name_of(pod).startswith(PREFIX) else ()


RECYCLERS = Index(PODS, "recyclers", _is_recycler)
RECYCLERS_CHANGED = Interest(changed=("phase", "deleting"), indexed=((RECYCLERS.name, ""),))


def volume_of_recycler(change: Change, _tables: Tables) -> Iterable[Key]:
    yield split_key(change.key)[1].removeprefix(PREFIX)


class Recycling:
    """Recycler of released volumes. It records the uid of the recycler pod of each volume. Key: name of a volume."""

    def __init__(self, *, tables: Tables, volumes: Volumes, writes: Writes, recyclers: Mapping[str, Recycler]) -> None:
        self._volumes, self._claims = tables[PERSISTENT_VOLUMES], tables[PERSISTENT_VOLUME_CLAIMS]
        self._pods, self._of_volumes, self._writes = tables[PODS], volumes, writes
        self._recyclers = recyclers
        self._pod_uids: dict[Key, str] = {}  # uid of the pod by name of the volume

    def recycle(self, name: Key) -> Reconciliation:
        """Recycle a released volume with reclaim policy Recycle, unless pods still use it.

        Source: recycleVolumeOperation.
        """
        known = self._volumes.get(name)
        if known is None or known["spec"].get("persistentVolumeReclaimPolicy") != "Recycle":
            self._pod_uids.pop(name, None)
            return None
        volume = yield from self._of_volumes.still_released(name)
        if volume is None:
            return None
        claim = key_of_reference(volume["spec"]["claimRef"])
        users = self._users(claim)
        if users and self._claims.get(claim) is None:
            text = f"Volume is used by pods: {','.join(users)}"
            yield Because(f"is not recycled yet: {text[0].lower()}{text[1:]}")
            yield record(PERSISTENT_VOLUMES, volume, "Normal", FAILED, text)
            return None
        recycler = self._recyclers.get(plugin_of(volume))
        if recycler is None:
            yield from self._writes.mark_failed(volume, FAILED, "No recycler plugin found for the volume!")
            return None
        yield from self._scrub(volume, recycler)
        return None

    def _users(self, claim: Key) -> list[Key]:
        return sorted({key_of(pod) for pod in self._pods.indexed(CLAIMS, claim) if not is_pod_ended(pod)})

    def _scrub(self, volume: Object, recycler: Recycler) -> Step[None]:
        """Create the recycler pod of a volume, or evaluate the status of an existing one.

        The volume is reconciled again at each change of the pod.
        """
        name = name_of(volume)
        key = recycler_key(name, recycler)
        pod = self._pods.get(key)
        made = self._pod_uids.get(name)
        if pod is None and made is None:
            yield Because(f"was released, reclaim policy Recycle: creates the recycler pod {key}")
            yield from self._make(volume, recycler)
            return
        if pod is None or (made is not None and uid_of(pod) != made):
            del self._pod_uids[name]
            yield from self._fail(volume, "failed to recycle volume: recycler pod was deleted")
            return
        if is_deleting(pod):
            yield Because(f"waits for the end of the recycler pod {key}")
            return
        if not is_recycler_of(pod, volume, recycler):
            yield from must(delete(PODS, pod), but=(NotFound,))
            yield from self._fail(volume, "old recycler pod found, will retry later")
            return
        why = failure_of(pod)
        if why is None:
            yield Because(f"waits until the recycler pod {key} has finished")
            self._pod_uids[name] = uid_of(pod)
            return
        self._pod_uids.pop(name, None)
        yield from self._repeat_events(volume, pod)
        yield from must(delete(PODS, pod, grace_seconds=0), but=(NotFound,))
        if why:
            yield from self._fail(volume, f"failed to recycle volume: {why}")
            return
        yield record(PERSISTENT_VOLUMES, volume, "Normal", "VolumeRecycled", "Volume recycled")
        yield from self._writes.unbind(volume)

    def _make(self, volume: Object, recycler: Recycler) -> Step[None]:
        outcome = yield from perform(create(PODS, recycler_pod(volume, recycler)))
        if isinstance(outcome, Done):
            self._pod_uids[name_of(volume)] = uid_of(decode_object(outcome.body))
        elif not isinstance(outcome, AlreadyExists):  # the table is stale: the event of the pod enqueues the volume
            yield from self._fail(volume, f"unexpected error creating recycler pod:  {outcome.message}")

    def _repeat_events(self, volume: Object, pod: Object) -> Step[None]:
        """Record the events of the recycler pod as events of the volume.

        Nothing is recorded if listing the events fails: upstream's RBAC role permits only to watch them.
        """
        selector = f"involvedObject.uid={uid_of(pod)}"
        outcome = yield from perform(list_live(EVENTS, namespace_of(pod), field_selector=selector))
        events = decode_object(outcome.body).get("items") or () if isinstance(outcome, Done) else ()
        for event in events:
            type_: RecordType = "Warning" if event.get("type") == "Warning" else "Normal"
            text = f"Recycler pod: {event.get('message') or ''}"
            yield record(PERSISTENT_VOLUMES, volume, type_, "RecyclerPod", text)

    def _fail(self, volume: Object, why: str) -> Step[None]:
        yield from self._writes.mark_failed(volume, FAILED, f"Recycle failed: {why}")
