"""ResourceClaims of the pods of hollow nodes: a pod starts only if its claims are allocated, and reserved for it.

Source: kubernetes v1.36 pkg/kubelet/cm/dra/manager.go, prepareResources; kuberuntime/kuberuntime_manager.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct

from kcm.actors.hollow.kubelet.images import PodEvent
from kcm.actors.hollow.kubelet.volumes import SYNC_BACKOFF, VolumeWait
from kcm.actors.hollow.scheduler.devices.claim_facts import PODS_BY_DEVICE_CLAIM, has_claims
from kcm.actors.reconciliation import Change, Watch
from kcm.protocols.objects import Key, Object, make_key, name_of, namespace_of, uid_of
from kcm.protocols.resource_claims import (
    allocation_of,
    claim_entries,
    claim_name,
    extended_claim_name,
    is_reserved_for,
    owner_problem,
)
from kcm.protocols.resources import PODS, RESOURCE_CLAIMS
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables


def claims_problem(pod: Object, claim_by_key: Callable[[Key], Object | None]) -> str:
    """Return why the claims of a pod cannot be prepared; "" if they can. A PodGroup may own and use them as well."""
    wanted: list[tuple[str, bool]] = []  # names, and whether the owner must be checked
    for entry in claim_entries(pod):
        found = claim_name(pod, entry)
        if found is None:
            return f"unknown kind of claim {entry.get('name') or ''}"
        if found.name == "":
            return "ResourceClaim not created yet"
        if found.name is not None:
            wanted.append((found.name, bool(found.template)))
    extended = extended_claim_name(pod)
    if extended:
        wanted.append((extended, False))
    for name, is_generated in wanted:
        claim = claim_by_key(make_key(namespace_of(pod), name))
        problem = _claim_problem(pod, claim, name, is_generated=is_generated)
        if problem:
            return problem
    return ""


def _claim_problem(pod: Object, claim: Object | None, name: str, *, is_generated: bool) -> str:
    if claim is None:
        return f'fetch ResourceClaim {name}: resourceclaims.resource.k8s.io "{name}" not found'
    problem = owner_problem(pod, claim, accept_group=True) if is_generated else ""
    if problem:
        return problem
    if not is_reserved_for(pod, claim, accept_group=True):
        return f"pod {name_of(pod)} ({uid_of(pod)}) is not allowed to use ResourceClaim {name} ({uid_of(claim)})"
    return "" if allocation_of(claim) else f"ResourceClaim {name}: not allocated"


# Seconds by which the table of claims may be later than that of pods. A real kubelet reads the claim from the server.
LATENESS = 1.0


class _Attempts(Struct):
    """Attempts to prepare the claims of a pod that failed with the same problem. until: Unix seconds of the next."""

    uid: str
    problem: str
    count: int = 0
    until: float = 0.0


class KubeletClaims:
    """ResourceClaims of the pods of all hollow nodes. It remembers failed attempts."""

    def __init__(self, tables: Tables) -> None:
        self._claims: Lister = tables[RESOURCE_CLAIMS]
        self._attempts: dict[Key, _Attempts] = {}

    def wait(self, entry: Entry, pod: Object, *, now: float) -> VolumeWait | None:
        """Return why a pod waits for its claims; None if it need not wait."""
        problem = claims_problem(pod, self._claims.get) if _uses_claims(pod) else ""
        if not problem:
            self.forget(entry.key)
            return None
        known = self._attempts.get(entry.key)
        if known is None or known.uid != entry.uid or known.problem != problem:
            known = self._attempts[entry.key] = _Attempts(entry.uid, problem, until=now + LATENESS)
        if now < known.until:
            return VolumeWait(known.until)
        known.until = now + SYNC_BACKOFF.delay(known.count)
        known.count += 1
        message = f"Failed to prepare dynamic resources: prepare dynamic resources: {problem}"
        return VolumeWait(known.until, (PodEvent("Warning", "FailedPrepareDynamicResources", message),))

    def forget(self, key: Key) -> None:
        self._attempts.pop(key, None)


def _uses_claims(pod: Mapping[str, Any]) -> bool:
    return has_claims(pod) or bool(extended_claim_name(pod))


def claim_watch(nodes: Collection[str]) -> Watch[Key]:
    """Return the watch that enqueues pods that may wait for a claim."""

    def keys(change: Change, tables: Tables) -> Iterable[Key]:
        pods = tables[PODS].indexed_entries(PODS_BY_DEVICE_CLAIM.name, change.key)
        return [entry.key for entry in pods if entry.facts.node in nodes and entry.facts.phase == "Pending"]

    return Watch(RESOURCE_CLAIMS, to=keys)
