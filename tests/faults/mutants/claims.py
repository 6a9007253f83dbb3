"""Mutants of the resource claim controller and of PodGroup protection."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from msgspec.structs import replace

from kcm.actors.controllers.devices.resource_claim import reconciler, watches
from kcm.actors.controllers.devices.resource_claim.reconciler import ResourceClaimReconciler
from kcm.actors.controllers.shared.protection_finalizers import without_finalizer
from kcm.actors.controllers.workloads.podgroup_protection import ACTIVE, FINALIZER, PodGroupProtection
from kcm.actors.reconciliation import Reconciliation, Step, must, update
from kcm.actors.reconciliation import patch as merge
from kcm.actors.simulation.campaign.domain_settings import CLAIMS_SETTING, JOBS_SETTING
from kcm.protocols.messages.commands import Patch
from kcm.protocols.messages.outcomes import NotFound
from kcm.protocols.objects import Key, Object, key_of
from kcm.protocols.resources import POD_GROUPS, Resource
from kcm.runtime.faults.vocabulary import Fault, FaultKind
from tests.faults.mutants.mutant import Mutant


@contextmanager
def missing_consumers_count_as_deleted() -> Iterator[None]:
    """A pod that the table does not contain is not read from the server."""

    def exists(_self: ResourceClaimReconciler, _resource: Resource, _key: Key, _uid: str) -> Step[bool]:
        yield from ()
        return False

    with patch.object(ResourceClaimReconciler, "_exists", exists):
        yield


@contextmanager
def new_names_are_applied_alone() -> Iterator[None]:
    """Applied names of claims replace the status, as server-side apply does with those of the same manager."""

    def statuses(_user: Object, names: Mapping[str, str]) -> list[Object]:
        return [{"name": entry, "resourceClaimName": name} for entry, name in names.items()]

    def merged(of: Resource, obj: Object, **_: object) -> Patch:
        """Return a merge patch, which replaces the whole list: simulated servers have no managers of fields."""
        return merge(of, key_of(obj), {"status": obj["status"]}, subresource="status")

    with patch.object(reconciler, "_statuses", statuses), patch.object(reconciler, "apply", merged):
        yield


@contextmanager
def finished_pods_get_claims() -> Iterator[None]:
    """A finished pod whose claim was deleted gets another claim, which is deleted as well."""
    with patch.object(watches, "is_done", lambda _pod: False), _claims_for_all():
        yield


@contextmanager
def _claims_for_all() -> Iterator[None]:
    original = ResourceClaimReconciler._sync_pod

    def sync_pod(self: ResourceClaimReconciler, key: Key) -> Step[None]:
        with patch.object(reconciler, "is_done", lambda _pod: False):
            yield from original(self, key)

    with patch.object(ResourceClaimReconciler, "_sync_pod", sync_pod):
        yield


@contextmanager
def names_are_drawn_for_each_creation() -> Iterator[None]:
    """The name of a claim is random, as the server's for generateName."""
    chance = random.Random("names of claims")

    def drawn(_owner: Object, _purpose: str, *, base: str, taken: Callable[[Key], bool]) -> str:
        return f"{base}{''.join(chance.choices('bcdfghjklm', k=5))}"

    with patch.object(reconciler, "lasting_name", drawn):
        yield


@contextmanager
def groups_go_as_the_cache_shows_their_pods() -> Iterator[None]:
    """The finalizer of a PodGroup is removed without listing the pods of the namespace."""

    def reconcile(self: PodGroupProtection, key: Key) -> Reconciliation:
        group = self._groups.get(key)
        released = None if group is None else without_finalizer(group, FINALIZER)
        if released is not None and not self._pods.indexed_entries(ACTIVE, key):
            yield from must(update(POD_GROUPS, released), but=(NotFound,))
        return None

    with patch.object(PodGroupProtection, "reconcile", reconcile):
        yield


def pods_are_late(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw a stall of the watch of pods."""
    at = round(random.Random(f"late pods of devices {seed}").uniform(2.0, seconds * 0.4), 2)
    stalled = FaultKind.WATCH_STALLED
    return (Fault(kind=stalled, start=at, until=at + 30.0, process=process, resource="pods"),)


def creations_are_lost(seed: int, *, seconds: float, process: str, actors: Sequence[str]) -> tuple[Fault, ...]:
    """Draw lost responses while the watch of claims is late."""
    at = round(random.Random(f"lost creations of claims {seed}").uniform(1.0, seconds * 0.4), 2)
    until = at + 15.0
    late = Fault(
        kind=FaultKind.WATCH_STALLED,
        start=at,
        until=until,
        process=process,
        resource="resourceclaims",
    )
    lost = Fault(kind=FaultKind.OUTCOME_LOST, start=at, until=until, rate=0.5, seconds=0.5, process=process)
    return late, lost


CLAIMS = (
    Mutant(
        name="a consumer that the cache does not show counts as gone",
        source="the live read of pods in syncClaim of resourceclaim/controller.go",
        mutation=missing_consumers_count_as_deleted,
        setting=replace(CLAIMS_SETTING, draw=pods_are_late),
    ),
    Mutant(
        name="names of claims are applied one by one",
        source="newPodClaims in syncPod of resourceclaim/controller.go, still in 1.36",
        mutation=new_names_are_applied_alone,
        setting=CLAIMS_SETTING,
    ),
    Mutant(
        name="a finished pod gets its claims again",
        source="podNeedsWork of resourceclaim/controller.go, whose mutation cache hides it for an hour",
        mutation=finished_pods_get_claims,
        setting=CLAIMS_SETTING,
    ),
    Mutant(
        name="a claim gets another name at each try",
        source="generateName in handleClaim of resourceclaim/controller.go",
        mutation=names_are_drawn_for_each_creation,
        setting=replace(CLAIMS_SETTING, draw=creations_are_lost),
    ),
    Mutant(
        name="a PodGroup goes as the cache shows its pods",
        source="hasActivePods of podgroup_protection_controller.go, still in 1.36",
        mutation=groups_go_as_the_cache_shows_their_pods,
        setting=replace(JOBS_SETTING, draw=pods_are_late),
    ),
)
