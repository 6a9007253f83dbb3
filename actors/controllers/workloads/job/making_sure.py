"""Whether the tables show what an earlier leader wrote about a Job.

The one who takes over may have a watch that is late. What was counted, and the finalizers that are gone, have to be in
its tables before it counts on; else a pod counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcm.actors.controllers.workloads.job.fields import JobSpec
from kcm.actors.reconciliation import Step, get_live, list_live, must, must_object
from kcm.protocols.late_methods import dataclass
from kcm.protocols.messages.outcomes import Done, NotFound
from kcm.protocols.objects import Key, decode_object, key_of, resource_version_of, split_key, uid_of
from kcm.protocols.resources import JOBS, PODS
from kcm.protocols.versions import parse_version
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry


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
