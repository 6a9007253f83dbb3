"""deployment-controller: keeps a Deployment's ReplicaSets as its spec asks, and rolls from template to template.

Reads Deployments, ReplicaSets and pods. Writes ReplicaSets, the Deployment's status (and with it, annotations) and, for
a rollback that is requested by annotation, the Deployment. Records the events ScalingReplicaSet, ReplicaSetCreateError,
SelectingAll, DeploymentRollback, DeploymentRollbackRevisionNotFound and DeploymentRollbackTemplateUnchanged.

Source: kubernetes v1.36 pkg/controller/deployment: deployment_controller.go, sync.go, rolling.go, recreate.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.actors.controllers.shared.ownership import claim, look_into
from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.controllers.shared.unknown_outcomes import UNREADABLE_DELAY
from kcm.actors.controllers.workloads.deployment.arithmetic import (
    RECREATE,
    ROLLING_UPDATE,
    strategy_type,
    unexpected_strategy,
)
from kcm.actors.controllers.workloads.deployment.fields import active, generation, number, section, template
from kcm.actors.controllers.workloads.deployment.progress import is_complete
from kcm.actors.controllers.workloads.deployment.recreate import old_pods_running, start_plan, stop_plan
from kcm.actors.controllers.workloads.deployment.recreations import Recreations
from kcm.actors.controllers.workloads.deployment.revisions import Templates
from kcm.actors.controllers.workloads.deployment.rollback import requested_revision, rollback_plan
from kcm.actors.controllers.workloads.deployment.rolling_update import growth_plan, shrink_plan
from kcm.actors.controllers.workloads.deployment.rollout import Rollout
from kcm.actors.controllers.workloads.deployment.scaling import is_scaling_event, scale_plan
from kcm.actors.controllers.workloads.deployment.status import with_status
from kcm.actors.reconciliation import (
    ORPHANS,
    Change,
    Interest,
    Reconciliation,
    RequeueAfter,
    Step,
    Watch,
    its_controller,
    itself,
    perform,
    record,
    update,
)
from kcm.protocols.messages.outcomes import CommandError
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import (
    Key,
    Object,
    is_deleting,
    key_of,
    labels_of,
    make_key,
    namespace_of,
    uid_of,
)
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables

_its_deployment = its_controller(DEPLOYMENTS)


def owner_or_adopters(change: Change, tables: Tables) -> Iterable[Key]:
    """The Deployment that owns (or owned) a ReplicaSet; of one without an owner those that may adopt it now."""
    yield from _its_deployment(change, tables)
    if change.controller is not None or change.deleted or is_deleting(change.new):
        return
    labels, old = labels_of(change.new), change.old
    if not labels or (old is not None and labels_of(old) == labels and change.previous_controller is None):
        return
    lister = tables[DEPLOYMENTS]
    for entry in lister.entries(change.namespace):
        try:
            selector = selector_of(lister.object_of(entry))
        except ValueError:
            continue  # its own reconciliation reports that
        if not selector.empty and selector.matches(labels):
            yield entry.key


def emptied_recreate(change: Change, tables: Tables) -> Iterable[Key]:
    """The Deployment that waits, for Recreate, until its last pod is gone: that of a deleted pod, if no other runs.

    Upstream asks the API server for the ReplicaSets here; ours are those we made, and the overlay shows them. And it
    counts pods that have come to their end, though no rollout waits for those.
    """
    owner = change.controller
    if not change.deleted or owner is None or owner.kind != REPLICASETS.kind:
        return
    replica_set = tables[REPLICASETS].entry(make_key(change.namespace, owner.name))
    if replica_set is None or replica_set.uid != owner.uid or replica_set.controller is None:
        return
    key = make_key(change.namespace, replica_set.controller.name)
    deployment = tables[DEPLOYMENTS].get(key)
    if deployment is None or uid_of(deployment) != replica_set.controller.uid or strategy_type(deployment) != RECREATE:
        return
    siblings = tables[REPLICASETS].entries_owned_by(uid_of(deployment))
    pods = (pod for sibling in siblings for pod in tables[PODS].entries_owned_by(sibling.uid))
    if all(is_terminal(pod.facts) for pod in pods):
        yield key


def selector_of(deployment: Object) -> LabelSelector:
    """spec.selector. Raises ValueError if it is malformed or missing."""
    selector = section(deployment, "spec").get("selector")
    if not isinstance(selector, dict):
        raise ValueError(f"deployment {key_of(deployment)} has invalid label selector: {selector!r}")
    try:
        return label_selector_of(selector)
    except ValueError as err:
        raise ValueError(f"deployment {key_of(deployment)} has invalid label selector: {err}") from err


WATCHES = (
    Watch(DEPLOYMENTS, to=itself),
    Watch(REPLICASETS, to=owner_or_adopters, interest=Interest(owner_kinds=(DEPLOYMENTS.kind, ORPHANS))),
    Watch(
        PODS,
        to=emptied_recreate,
        interest=Interest(types=(EventType.DELETED,), owner_kinds=(REPLICASETS.kind,)),
    ),
)


class DeploymentReconciler:
    """Key: "namespace/name" of a Deployment."""

    def __init__(self, *, tables: Tables, clock: Clock, counts_terminating: bool = True) -> None:
        """counts_terminating: the status has terminatingReplicas."""
        self._deployments, self._replica_sets, self._pods = tables[DEPLOYMENTS], tables[REPLICASETS], tables[PODS]
        self._clock, self._counts_terminating = clock, counts_terminating
        self._templates, self._recreations = Templates(), Recreations()

    def reconcile(self, key: Key) -> Reconciliation:
        """Raises ValueError on a malformed Deployment or ReplicaSet, CommandError on a write that did not succeed."""
        deployment = self._deployments.get(key)
        if deployment is None:
            self._recreations.forget(key)
            return None
        try:
            return (yield from self._reconcile(deployment))
        except CommandError as err:
            if is_namespace_terminating(err.failure):
                return None
            raise

    def _reconcile(self, deployment: Object) -> Reconciliation:
        selector = selector_of(deployment)
        if selector.empty:
            yield from _warn_of_selecting_all(deployment)
            return None
        if not selector.matches(labels_of(template(deployment))):
            # Validation forbids it, and upstream does not look: each new ReplicaSet would be released at once, and the
            # next one made.
            raise ValueError(f"deployment {key_of(deployment)}: its selector does not match its template's labels")
        rollout = yield from self._claim(deployment, selector)
        if is_deleting(deployment):
            yield from rollout.sync_new()
            yield from rollout.sync_status()
            return None
        yield from rollout.note_pause()
        yield from rollout.sync_new()
        if section(deployment, "spec").get("paused"):
            return (yield from _scale(rollout, paused=True))
        revision = requested_revision(rollout.deployment)
        if revision is not None:
            yield from rollout.ensure_new()
            yield from rollout.write_note()
            yield from rollout.roll_back(rollback_plan(rollout.deployment, rollout.all, revision))
            return None
        if is_scaling_event(rollout.deployment, rollout.all):
            return (yield from _scale(rollout, paused=False))
        strategy = strategy_type(deployment)
        if strategy == RECREATE:
            return (yield from self._recreate(rollout))
        if strategy == ROLLING_UPDATE:
            return (yield from _roll(rollout))
        raise unexpected_strategy(deployment)

    def _claim(self, deployment: Object, selector: LabelSelector) -> Step[Rollout]:
        """The ReplicaSets of this Deployment: those it owns and selects, and orphans that it adopts."""
        lister = self._replica_sets
        doubt = lister.first_unreadable(namespace_of(deployment), owner=uid_of(deployment))
        if doubt is not None:  # it may be the new one, or an old one with pods
            raise UnreadableError(REPLICASETS, doubt)
        candidates = lister.entries_owned_by(uid_of(deployment)) + lister.orphan_entries(namespace_of(deployment))
        claimed = yield from claim(
            candidates,
            lister=lister,
            owner=deployment,
            owners=DEPLOYMENTS,
            matches=selector.matches,
            look=look_into(lister),
        )
        replica_sets = [lister.object_of(entry) for entry in claimed]
        return Rollout(
            deployment,
            replica_sets,
            clock=self._clock,
            templates=self._templates,
            recreations=self._recreations,
            counts_terminating=self._counts_terminating,
        )

    def _recreate(self, rollout: Rollout) -> Reconciliation:
        """Source: rolloutRecreate."""
        stops = stop_plan(rollout.old)
        yield from rollout.resize(stops)
        if stops or old_pods_running(rollout.new, rollout.old, self._phases(rollout.old)):
            again = yield from rollout.sync_rollout_status()
            # No event tells that a pod is gone which could never be read.
            return RequeueAfter(UNREADABLE_DELAY) if self._pods.unreadable(namespace_of(rollout.deployment)) else again
        new = yield from rollout.ensure_new()
        yield from rollout.resize(start_plan(rollout.deployment, new))
        return (yield from _finish(rollout))

    def _phases(self, replica_sets: Sequence[Object]) -> dict[str, list[str]]:
        """The phases of the pods of each of these, by its uid. One whose pods cannot all be read may have any."""
        return {
            uid_of(each): [
                *(pod.facts.phase for pod in self._pods.entries_owned_by(uid_of(each))),
                *(
                    "Unknown"
                    for doubt in [self._pods.first_unreadable(namespace_of(each), owner=uid_of(each))]
                    if doubt
                ),
            ]
            for each in replica_sets
        }


def _roll(rollout: Rollout) -> Reconciliation:
    """Source: rolloutRolling."""
    new = yield from rollout.ensure_new()
    old = active(rollout.old)  # the rest is history
    growth = growth_plan(rollout.deployment, new, old)
    if growth:
        yield from rollout.resize(growth)
        return (yield from rollout.sync_rollout_status())
    shrinkage = shrink_plan(rollout.deployment, new, old)
    try:
        yield from rollout.resize(shrinkage)
    except CommandError:
        # Upstream forgets this failure and waits for an event, which after a 5xx may never come. Here as there the
        # status is written first, so that a rollout that is held up by it runs into its deadline.
        yield from rollout.sync_rollout_status()
        raise
    if shrinkage:
        return (yield from rollout.sync_rollout_status())
    return (yield from _finish(rollout))


def _finish(rollout: Rollout) -> Reconciliation:
    """After a rollout's last step, and whenever there is no step to take."""
    if is_complete(rollout.deployment, section(rollout.deployment, "status")):
        yield from rollout.clean_up()
    return (yield from rollout.sync_rollout_status())


def _scale(rollout: Rollout, *, paused: bool) -> Reconciliation:
    """Follow spec.replicas without continuing the rollout. Source: sync."""
    yield from rollout.resize(scale_plan(rollout.deployment, rollout.new, rollout.old))
    if paused and requested_revision(rollout.deployment) is None:
        yield from rollout.clean_up()
    yield from rollout.sync_status()
    return None


def _warn_of_selecting_all(deployment: Object) -> Step[None]:
    message = "This deployment is selecting all pods. A non-empty selector is required."
    yield record(DEPLOYMENTS, deployment, "Warning", "SelectingAll", message)
    if number(deployment, "status", "observedGeneration") < generation(deployment):
        seen = with_status(deployment, observedGeneration=generation(deployment))
        yield from perform(update(DEPLOYMENTS, seen, subresource="status"))
