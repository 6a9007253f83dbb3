"""Ephemeral volume controller: creates the claims of generic ephemeral volumes of pods.

Input: pods with ephemeral volumes, claims. Output: for each ephemeral volume, a claim with the name "pod-volume" and
the content of the volume's template; events on the pod. The pod controls the claim, so the garbage collector deletes
the claim with its pod. Key: "namespace/name" of a pod.

A claim that is deleted while its pod exists is created again. An existing claim with this name whose controller is not
the pod is not used: the pod gets an event, and the key is retried, because the claim may be deleted.

Source: kubernetes v1.36 pkg/controller/volume/ephemeral/controller.go, component-helpers/storage/ephemeral.
Differences:
- When a claim was deleted, its pod is read from the API server first. Otherwise, while the watch of pods is late, the
  controller would create the claim of a deleted pod repeatedly, as often as the garbage collector deletes it.
- A creation that was not sent, because the Lease is lost, is not counted and causes no event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kcm.actors.controllers.shared.option_checks import at_least_one
from kcm.actors.controllers.shared.server_texts import client_go_message
from kcm.actors.controllers.storage.shared.pods_by_claim import CLAIMS, PODS_BY_CLAIM
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation import (
    Because,
    Change,
    CommandError,
    Done,
    Enqueue,
    Interest,
    NotFound,
    Reconciliation,
    Step,
    Watch,
    controlled_by,
    create,
    get_live,
    must,
    own,
    record,
    step,
)
from kcm.actors.reconciliation.specs import ControllerSpec, Index, Queue
from kcm.protocols.field_types import MAP, check
from kcm.protocols.messages.outcomes import Refused
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, is_deleting, key_of, make_key, namespace_of
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from kcm.protocols.volumes import ephemeral_claim_name
from kcm.runtime.flags.declaration import flag
from kcm.runtime.metrics.registry import Family, Metrics
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

QUEUE = "ephemeral_volume"  # also the source of events
EPHEMERAL, YES = "has ephemeral volumes", "yes"

_HELP = "Number of PersistentVolumeClaim creation requests"  # upstream has the same text for both
CREATIONS = Family(name="ephemeral_volume_controller_create_total", kind="counter", help=_HELP)
FAILURES = Family(name="ephemeral_volume_controller_create_failures_total", kind="counter", help=_HELP)


class EphemeralVolumeOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "EphemeralVolumeController"

    concurrent_syncs: int = flag(
        5,
        "Number of ephemeral volumes that are synced concurrently.",
        name="concurrent-ephemeralvolume-syncs",
        config="ConcurrentEphemeralVolumeSyncs",
    )


class ForeignClaimError(Exception):
    """Raised if the claim with the name of an ephemeral volume's claim is not controlled by the volume's pod."""

    def __init__(self, claim: Key, pod: Key) -> None:
        super().__init__(f"PVC {claim} was not created for pod {pod} (pod is not owner)")


def ephemeral_volumes(pod: Mapping[str, Any]) -> list[Object]:
    """Return the generic ephemeral volumes of a pod, in their order."""
    return [volume for volume in (pod.get("spec") or {}).get("volumes") or () if volume.get("ephemeral") is not None]


def _has_ephemeral_volumes(pod: Object) -> Iterable[str]:
    # Runs for each version of each pod, and most pods have few volumes, none of them ephemeral.
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if volume.get("ephemeral") is not None:
            return (YES,)
    return ()


PODS_WITH_EPHEMERAL_VOLUMES = Index(PODS, EPHEMERAL, _has_ephemeral_volumes)


def claim_for(pod: Object, volume: Mapping[str, Any]) -> Object:
    """Return the claim to create for an ephemeral volume of a pod."""
    check(volume["ephemeral"], {"volumeClaimTemplate": {"metadata": MAP, "spec": MAP}}, at=f"volume {volume['name']}")
    template = volume["ephemeral"].get("volumeClaimTemplate") or {}
    from_template = template.get("metadata") or {}
    meta: Object = {"name": ephemeral_claim_name(pod, volume), "namespace": namespace_of(pod)}
    meta.update({name: from_template[name] for name in ("annotations", "labels") if from_template.get(name)})
    return own({"metadata": meta, "spec": template.get("spec") or {}}, by=pod, of=PODS)


class EphemeralVolumes:
    """Reconciler of the claims of ephemeral volumes. Key: "namespace/name" of the pod."""

    def __init__(self, *, tables: Tables, log: FilteringBoundLogger, metrics: Metrics) -> None:
        self._pods, self._claims, self._log = tables[PODS], tables[PERSISTENT_VOLUME_CLAIMS], log
        self._creations, self._failures = metrics.counter(CREATIONS), metrics.counter(FAILURES)

    def reconcile(self, key: Key) -> Reconciliation:
        """Create the missing claims of a pod's ephemeral volumes; stop at the first failure. Source: syncHandler."""
        pod = self._pods.get(key)
        if pod is None or is_deleting(pod):
            self._log.debug("Ephemeral: nothing to do for pod, it is gone or marked for deletion", key=key)
            return None
        for volume in ephemeral_volumes(pod):
            try:
                yield from self._provide(pod, volume)
            except (ForeignClaimError, CommandError) as err:
                why = _text(err, ephemeral_claim_name(pod, volume))
                if why is not None:
                    yield record(PODS, pod, "Warning", "FailedBinding", f"ephemeral volume {volume['name']}: {why}")
                raise
        return None

    def check_pod(self, key: Key) -> Reconciliation:
        """Enqueue a pod after one of its claims was deleted, unless the pod was deleted as well."""
        if (yield from self._exists(key)):
            yield Because("a claim of its ephemeral volumes was deleted: creates it again")
            yield Enqueue(QUEUE, key)
        return None

    @step
    def _exists(self, key: Key) -> Step[bool]:
        """Report whether the API server has the pod, and it is not being deleted."""
        outcome = yield from must(get_live(PODS, key), but=(NotFound,))
        pod = self._pods.get(key)
        return isinstance(outcome, Done) and pod is not None and not is_deleting(pod)

    def _provide(self, pod: Object, volume: Mapping[str, Any]) -> Step[None]:
        """Create the claim of one volume, unless it exists. Source: handleVolume.

        Raises ForeignClaimError if the claim was not created for this pod, CommandError if it could not be created.
        """
        key = make_key(namespace_of(pod), ephemeral_claim_name(pod, volume))
        self._claims.require(key)
        claim = self._claims.get(key)
        if claim is not None:
            if not controlled_by(claim, pod):
                yield Because(f"volume {volume['name']} waits until claim {key}, which another object owns, is deleted")
                raise ForeignClaimError(key, key_of(pod))
            return
        yield Because(f"ephemeral volume {volume['name']} has no claim: creates {key}")
        try:
            yield from must(create(PERSISTENT_VOLUME_CLAIMS, claim_for(pod, volume)))
        except CommandError as err:
            if not isinstance(err.failure, Refused):
                self._creations.inc()
                self._failures.inc()
            raise
        self._creations.inc()
        self._log.info("claim created for ephemeral volume", key=key_of(pod), claim=key)


def _text(err: ForeignClaimError | CommandError, claim: str) -> str | None:
    """Return the text of the event about a failure; None for a creation that was not sent, which causes no event."""
    if isinstance(err, ForeignClaimError):
        return str(err)
    if isinstance(err.failure, Refused):
        return None
    return f"create PVC {claim}: {client_go_message(err.failure, 'post persistentvolumeclaims')}"


def pods_of_claim(change: Change, tables: Tables) -> Iterator[Key]:
    """Enqueue the pods that use a deleted claim, if they are not being deleted and have ephemeral volumes."""
    for pod in tables[PODS].indexed(CLAIMS, change.key):
        if not is_deleting(pod) and ephemeral_volumes(pod):
            yield key_of(pod)


def existing_pod(change: Change, _tables: Tables) -> Iterable[Key]:
    return () if is_deleting(change.new) else (change.key,)


def _workers(options: Options) -> int:
    return options[EphemeralVolumeOptions].concurrent_syncs


SPEC = ControllerSpec(
    name="ephemeral-volume-controller",
    aliases=("ephemeral-volume",),
    never_blocks=True,
    component=QUEUE,
    queues=(
        Queue(
            QUEUE,
            watches=(
                # The volumes of a pod are immutable, and the garbage collector deletes its claims.
                Watch(
                    PODS,
                    to=existing_pod,
                    interest=Interest(types=(EventType.ADDED,), indexed=((EPHEMERAL, YES),)),
                ),
            ),
            concurrency=_workers,
            terminal=(),
        ),
        Queue(
            "ephemeral_volume_deleted_claims",
            watches=(Watch(PERSISTENT_VOLUME_CLAIMS, to=pods_of_claim, interest=Interest(types=(EventType.DELETED,))),),
            reconcile=EphemeralVolumes.check_pod,
            concurrency=_workers,
            terminal=(),
            reports_as=QUEUE,
        ),
    ),
    indexes=(PODS_BY_CLAIM, PODS_WITH_EPHEMERAL_VOLUMES),
    options=EphemeralVolumeOptions,
    checks=(at_least_one("concurrent-ephemeralvolume-syncs", _workers),),
    build=lambda context: EphemeralVolumes(tables=context.tables, log=context.log, metrics=context.metrics),
)
