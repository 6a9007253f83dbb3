"""Whether the tables show what an earlier leader wrote about a Job.

The one who takes over may have a watch that is late. What was counted, and the finalizers that are gone, have to be in
its tables before it counts on; else a pod counts twice.
"""

from __future__ import annotations

from actors.controllers.workloads.job.fields import JobSpec
from actors.reconciliation import Step, get_live, list_live, must, must_object
from protocols.messages.outcomes import Done, NotFound
from protocols.objects import decode_object, key_of, resource_version_of, split_key, uid_of
from protocols.resources import JOBS, PODS, Resource
from protocols.versions import parse_version
from runtime.tables.overlay import Lister
from runtime.tables.table import Entry


def what_is_late(job: Entry, spec: JobSpec, *, pods: Lister) -> Step[Resource | None]:
    """The resource whose table has to be waited for; None if what it shows is all that was written.

    The Job itself is read, and shown from then on. Its pods are compared with the server's where their table has not
    reached the version of the Job.
    """
    outcome = yield from must(get_live(JOBS, job.key), but=(NotFound,))
    if not isinstance(outcome, Done):
        return None
    live = decode_object(outcome.body)
    if uid_of(live) != job.uid or pods.version >= (parse_version(resource_version_of(live)) or 0):
        return None
    namespace, _ = split_key(job.key)
    found = yield from must_object(list_live(PODS, namespace, label_selector=str(spec.selector), metadata_only=True))
    versions = {key_of(one): (uid_of(one), resource_version_of(one)) for one in found.get("items") or ()}
    for key, version in versions.items():
        entry = pods.entry(key)
        if entry is None or (entry.uid, str(entry.resource_version)) != version:
            return PODS
    owned = pods.entries_owned_by(job.uid)
    return (
        PODS
        if any(entry.key not in versions and spec.selector.matches(entry.facts.labels) for entry in owned)
        else None
    )
