"""What of a Job decides how soon its changes concern the controller.

Source: kubernetes v1.36 pkg/controller/job/job_controller.go (addJob, updateJob, addPod, updatePod, deletePod).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kcm.actors.controllers.workloads.job.fields import is_finished
from kcm.actors.reconciliation import ORPHANS, Change, Interest, Watch, its_controller, itself
from kcm.actors.reconciliation.specs import Facts
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, is_deleting, key_of, labels_of, metadata, uid_of
from kcm.protocols.resources import JOBS, PODS
from kcm.protocols.selectors import label_selector_of
from kcm.runtime.tables.tables import Tables


class JobFacts(NamedTuple):
    """generation: of its spec; its deletion counts as one. ended: whether it has finished."""

    generation: int
    ended: bool


def job_facts(job: Object) -> JobFacts:
    return JobFacts(metadata(job).get("generation") or 0, is_finished(job))


JOB_FACTS = Facts(JOBS, job_facts)


def matching_jobs(change: Change, tables: Tables) -> Iterable[Key]:
    """All whose selector matches a pod without a controller, which one of them may adopt: of pods that are new, have
    lost their controller or changed their labels.
    """
    if change.controller is not None or change.deleted:
        return
    pod, old = change.new, change.old
    labels = labels_of(pod)
    if is_deleting(pod):
        return
    if old is not None and uid_of(old) == uid_of(pod):
        if change.previous_controller is None and labels_of(old) == labels:
            return
    for job in tables[JOBS].objects(change.namespace):
        try:
            selector = label_selector_of((job.get("spec") or {}).get("selector"))
        except ValueError:
            continue  # its own sync reports what is wrong with it
        if not selector.empty and selector.matches(labels):
            yield key_of(job)


# At once: what users say of a Job. A second later, with all that comes meanwhile: pods, and the status.
AT_ONCE = (Watch(JOBS, to=itself, interest=Interest(changed=("generation",))),)
LATER = (
    Watch(JOBS, to=itself, interest=Interest(types=(EventType.MODIFIED,))),
    Watch(PODS, to=its_controller(JOBS), interest=Interest(owner_kinds=(JOBS.kind,))),
    Watch(PODS, to=matching_jobs, interest=Interest(owner_kinds=(ORPHANS,), changed=("labels",))),
)
