"""State of one sync of a Job, and what is kept in memory between two syncs.

If the memory is lost with the actor, pods may be replaced with less backoff, and the server is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple

from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.fields import JobSpec
from kcm.actors.controllers.workloads.job.metrics import RECONCILING, TRACKING
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.reconciliation import Step, get_live, list_live, must, must_object
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.outcomes import CommandError, Done, NotFound
from kcm.protocols.objects import Key, Object, decode_object, key_of, resource_version_of, split_key, uid_of
from kcm.protocols.resources import JOBS, PODS
from kcm.protocols.versions import parse_version
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

LOOK_AGAIN = 1.0  # seconds after a pod's name was found to exist, a pod had changed, or more is to be counted


class Sync:
    """One sync of a Job. action: what it does, as metrics call it. pod_group: the PodGroup of new pods; "" for none."""

    __slots__ = ("action", "entry", "job", "memory", "pod_group", "waits")

    def __init__(self, entry: Entry, job: Object, memory: Memory) -> None:
        self.entry, self.job, self.memory = entry, job, memory
        self.action = RECONCILING
        self.pod_group = ""
        self.waits: list[float] = []

    def look_again(self, after: float | None) -> None:
        if after is not None:
            self.waits.append(after)


class Managed(NamedTuple):
    """action: what was done, as metrics call it. failure: what the sync raises once the status is written. wait:
    seconds to requeue after.
    """

    action: str = TRACKING
    failure: CommandError | None = None
    wait: float | None = None


@dataclass(slots=True)
class Memory:
    """uid: the Job's. is_sure: the tables showed, when that mattered for the first time, what an earlier leader wrote.
    live: what the server said of that.

    unsure: pods whose creation may have succeeded unseen, by name, with their index. doomed: uids of pods whose removal
    may have succeeded unseen. pods: as they were read last, by uid. ended: uids of tracked pods that have ended.
    """

    uid: str
    failures: Failures
    is_sure: bool = False
    live: Live | None = None
    unsure: dict[str, int | None] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    pods: dict[str, JobPod] = field(default_factory=dict)
    ended: frozenset[str] = frozenset()


class Memories:
    """By the key of a Job."""

    def __init__(self) -> None:
        self._of: dict[Key, Memory] = {}

    def of(self, key: Key, uid: str) -> Memory:
        """Another Job of this name begins anew, but for the pods of the one before that are still waited for."""
        known = self._of.get(key)
        if known is None or known.uid != uid:
            ended = frozenset[str]() if known is None else known.ended
            known = self._of[key] = Memory(uid, Failures(of=uid), ended=ended)
        return known

    def forget(self, key: Key) -> frozenset[str]:
        """Returns the uids of tracked pods that had ended."""
        known = self._of.pop(key, None)
        return frozenset() if known is None else known.ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The pods that a Job had on the server as it was asked. version: of that list; 0 where their table needs none.

    pods: uid and resourceVersion of each.
    """

    uid: str
    version: int = 0
    pods: Mapping[Key, tuple[str, str]]

    def is_shown(self, pods: Lister) -> bool:
        """Whether their table has come as far: by its version, or as nothing else has changed since."""
        if pods.version >= self.version:
            return True
        shown = {entry.key: (entry.uid, str(entry.resource_version)) for entry in pods.entries_owned_by(self.uid)}
        return shown == self.pods


def ask(job: Entry, spec: JobSpec, *, pods: Lister) -> Step[Live]:
    """Asks the server: once for each Job and leader. The Job is shown as it is from then on.

    Its pods are asked for where their table has not reached the version of the Job.
    """
    unneeded = Live(uid=job.uid, pods={})
    outcome = yield from must(get_live(JOBS, job.key), but=(NotFound,))
    if not isinstance(outcome, Done):
        return unneeded
    live = decode_object(outcome.body)
    if uid_of(live) != job.uid or pods.version >= (parse_version(resource_version_of(live)) or 0):
        return unneeded
    namespace, _ = split_key(job.key)
    found = yield from must_object(list_live(PODS, namespace, label_selector=str(spec.selector), metadata_only=True))
    versions = {
        key_of(one): (uid_of(one), resource_version_of(one))
        for one in found.get("items") or ()
        if any(owner.get("uid") == job.uid for owner in one["metadata"].get("ownerReferences") or ())
    }
    return Live(uid=job.uid, version=parse_version(resource_version_of(found)) or 0, pods=versions)
