"""State of one sync of a Job, and the state kept in memory between syncs.

If the memory is lost in a restart, failed pods may be replaced with a shorter backoff, and the pods are compared with
the server again before the first write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from kcm.actors.controllers.shared.unknown_outcomes import UnknownOutcomes
from kcm.actors.controllers.workloads.job.backoff import Failures
from kcm.actors.controllers.workloads.job.fields import JobSpec
from kcm.actors.controllers.workloads.job.metrics import RECONCILING, TRACKING
from kcm.actors.controllers.workloads.job.pods import JobPod
from kcm.actors.reconciliation import Step, get_live, list_live, must, must_object
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Key, Object, decode_object, key_of, resource_version_of, split_key, uid_of
from kcm.protocols.resources import JOBS, PODS
from kcm.protocols.versions import parse_version
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry


class Sync:
    """One sync of a Job.

    `action` is the label of the sync's metrics; `pod_group` is the name of the PodGroup for new pods, "" without one.
    """

    __slots__ = ("action", "delays", "entry", "job", "memory", "pod_group")

    def __init__(self, entry: Entry, job: Object, memory: JobMemory) -> None:
        self.entry, self.job, self.memory = entry, job, memory
        self.action = RECONCILING
        self.pod_group = ""
        self.delays: list[float] = []

    def requeue_after(self, seconds: float | None) -> None:
        """Request another sync after this delay. The shortest requested delay is used."""
        if seconds is not None:
            self.delays.append(seconds)


class Managed(NamedTuple):
    """Result of creating or deleting pods."""

    action: str = TRACKING  # label of the sync's metrics
    failure: CommandError | None = None  # raised once the status is written
    delay: float | None = None  # seconds until the next sync


class JobMemory(Struct):
    """State of one Job that is kept between syncs."""

    uid: str
    failures: Failures
    # Whether the tables contain the writes of an earlier leader for this Job. Checked once, before the first write.
    shows_predecessor: bool = False
    live_pods: LivePods | None = None  # the server's answer for that check
    unknown: UnknownOutcomes[int] = field(default_factory=UnknownOutcomes)  # creations by completion index
    pods: dict[str, JobPod] = field(default_factory=dict)  # as parsed last, by uid, without those of `settled`
    settled: set[Entry] = field(default_factory=set)  # claimed pods that no sync needs to look at again; see is_settled
    finished: frozenset[str] = frozenset()  # uids of finished pods that have the finalizer


class JobMemories:
    """The JobMemory of each Job, by key."""

    def __init__(self) -> None:
        self._by_key: dict[Key, JobMemory] = {}

    def of(self, key: Key, uid: str) -> JobMemory:
        """Return the memory of the Job with this uid, creating it if necessary.

        If a Job was replaced by a new one of the same name, the new memory takes over `finished`: those pods still have
        the finalizer, and are counted in a metric.
        """
        memory = self._by_key.get(key)
        if memory is None or memory.uid != uid:
            finished = frozenset[str]() if memory is None else memory.finished
            memory = self._by_key[key] = JobMemory(uid, Failures(of=uid), finished=finished)
        return memory

    def forget(self, key: Key) -> frozenset[str]:
        """Delete the memory of a Job. Return the uids of its finished pods that still have the finalizer."""
        memory = self._by_key.pop(key, None)
        return frozenset() if memory is None else memory.finished


class LivePods(Struct, frozen=True, kw_only=True):
    """Pods of a Job as listed from the server, to check whether the table of pods is up to date.

    After a change of leader, the watch may be late. If the table still contained finalizers that the earlier leader has
    removed, pods would be counted twice.
    """

    uid: str  # of the Job
    version: int = 0  # resourceVersion of the list; 0 if the table needs not be compared
    pods: Mapping[Key, tuple[str, str]]  # uid and resourceVersion of each pod

    def is_shown(self, pods: Lister) -> bool:
        """Report whether the table of pods is at least as new as the list, or contains the same pods of this Job."""
        if pods.version >= self.version:
            return True
        shown = {entry.key: (entry.uid, str(entry.resource_version)) for entry in pods.entries_owned_by(self.uid)}
        return shown == self.pods


def read_live_pods(job: Entry, spec: JobSpec, *, pods: Lister) -> Step[LivePods]:
    """Read the Job from the server, and list its pods unless the table of pods has reached the Job's version.

    Listers then show the version of the Job that was read.
    """
    not_needed = LivePods(uid=job.uid, pods={})
    outcome = yield from must(get_live(JOBS, job.key), but=(NotFound,))
    if not isinstance(outcome, Done):
        return not_needed
    live = decode_object(outcome.body)
    if uid_of(live) != job.uid or pods.version >= (parse_version(resource_version_of(live)) or 0):
        return not_needed
    namespace, _ = split_key(job.key)
    found = yield from must_object(list_live(PODS, namespace, label_selector=str(spec.selector), metadata_only=True))
    versions = {
        key_of(pod): (uid_of(pod), resource_version_of(pod))
        for pod in found.get("items") or ()
        if any(owner.get("uid") == job.uid for owner in pod["metadata"].get("ownerReferences") or ())
    }
    return LivePods(uid=job.uid, version=parse_version(resource_version_of(found)) or 0, pods=versions)
