"""Deployment controller: reconciles the ReplicaSets of each Deployment, and rolls out changes of the pod template.

Reads Deployments, ReplicaSets and pods. Writes ReplicaSets, the Deployment's status (and with it, annotations) and, for
a rollback that is requested by annotation, the Deployment. Records the events ScalingReplicaSet, ReplicaSetCreateError,
SelectingAll, DeploymentRollback, DeploymentRollbackRevisionNotFound and DeploymentRollbackTemplateUnchanged.

Source: kubernetes v1.36 pkg/controller/deployment: deployment_controller.go, sync.go, rolling.go, recreate.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.actors.controllers.shared.ownership import claim, claim_fields_reader
from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.controllers.shared.unknown_outcomes import UNREADABLE_DELAY
from kcm.actors.controllers.workloads.deployment.objects import (
    RECREATE,
    ROLLING_UPDATE,
    Deployment,
    ReplicaSet,
    active,
    parse_deployment,
    parse_replica_set,
    pod_template_labels,
    selector_of,
    strategy_type,
    unexpected_strategy,
)
from kcm.actors.controllers.workloads.deployment.plans import (
    growth_plan,
    is_scaling_event,
    old_pods_running,
    scale_plan,
    shrink_plan,
    start_plan,
    stop_plan,
)
from kcm.actors.controllers.workloads.deployment.reasons import (
    growth_reason,
    progress_reason,
    recreate_reason,
    shrink_reason,
    wait_reason,
)
from kcm.actors.controllers.workloads.deployment.revisions import Templates, requested_revision, rollback_plan
from kcm.actors.controllers.workloads.deployment.rollout import CreationBackoff, Rollout
from kcm.actors.controllers.workloads.deployment.status import is_complete, with_status
from kcm.actors.reconciliation import (
    ORPHANS,
    Because,
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
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import (
    Key,
    is_deleting,
    labels_of,
    make_key,
    uid_of,
)
from kcm.protocols.pods import is_terminal
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables

_its_deployment = its_controller(DEPLOYMENTS)


def owner_or_adopters(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the Deployment that owns or owned a ReplicaSet, or the Deployments that may adopt an orphaned
    ReplicaSet.
    """
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
            continue  # the Deployment's own sync reports the error
        if not selector.empty and selector.matches(labels):
            yield entry.key


def emptied_recreate(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue the Deployment of a deleted pod if its strategy is Recreate and no pod of it is running any more.

    Differences from upstream: upstream lists the ReplicaSets from the API server, whereas our table already contains
    our own creations. Upstream also counts terminal pods, although no rollout waits for them. Source: deletePod.
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
    """Reconciles Deployments. Key: "namespace/name" of a Deployment."""

    def __init__(self, *, tables: Tables, clock: Clock, counts_terminating: bool = True) -> None:
        self._deployments, self._replica_sets, self._pods = tables[DEPLOYMENTS], tables[REPLICASETS], tables[PODS]
        self._clock = clock
        self._counts_terminating = counts_terminating  # whether the status has terminatingReplicas
        self._templates, self._backoff = Templates(), CreationBackoff()

    def reconcile(self, key: Key) -> Reconciliation:
        """Sync a Deployment. Raises ValueError if an object is malformed, and CommandError if a write fails.

        A failure because the namespace is terminating is ignored.
        """
        obj = self._deployments.get(key)
        if obj is None:
            self._backoff.forget(key)
            return None
        try:
            return (yield from self._sync(parse_deployment(obj)))
        except CommandError as err:
            if is_namespace_terminating(err.failure):
                return None
            raise

    def _sync(self, deployment: Deployment) -> Reconciliation:
        """Sync a parsed Deployment. Source: syncDeployment."""
        if deployment.selector.empty:
            yield Because("its selector is empty and selects all pods: rolls nothing out")
            yield from _warn_of_selecting_all(deployment)
            return None
        if not deployment.selector.matches(pod_template_labels(deployment)):
            # Validation forbids this, and upstream does not check it: each new ReplicaSet would be released at once,
            # and the next one created.
            raise ValueError(f"deployment {deployment.key}: its selector does not match its template's labels")
        rollout = yield from self._claim(deployment)
        if deployment.is_deleting:
            yield Because("is being deleted: only its status is kept up to date")
            yield from rollout.sync_new()
            yield from rollout.sync_status()
            return None
        yield from rollout.note_pause()
        yield from rollout.sync_new()
        if deployment.paused:
            yield Because("is paused: scales its ReplicaSets, but rolls nothing out")
            return (yield from _scale(rollout, paused=True))
        revision = requested_revision(rollout.deployment.annotations)
        if revision is not None:
            yield Because(f"rolls back to revision {revision or 'before the last'}, as its annotation requests")
            yield from rollout.ensure_new()
            yield from rollout.write_note()
            yield from rollout.roll_back(rollback_plan(rollout.deployment, rollout.all, revision))
            return None
        if is_scaling_event(rollout.deployment, rollout.all):
            yield Because(f"spec.replicas has changed to {deployment.replicas}: scales its ReplicaSets in proportion")
            return (yield from _scale(rollout, paused=False))
        if deployment.strategy == RECREATE:
            return (yield from self._recreate(rollout))
        if deployment.strategy == ROLLING_UPDATE:
            return (yield from _roll(rollout))
        raise unexpected_strategy(deployment)

    def _claim(self, deployment: Deployment) -> Step[Rollout]:
        """Claim the ReplicaSets of the Deployment, adopt matching orphans, and return the Rollout to continue with.

        Source: getReplicaSetsForDeployment.
        """
        lister = self._replica_sets
        unreadable = lister.first_unreadable(deployment.namespace, owner=deployment.uid)
        if unreadable is not None:  # the unreadable ReplicaSet may be the new one, or an old one with pods
            raise UnreadableError(REPLICASETS, unreadable)
        candidates = lister.entries_owned_by(deployment.uid) + lister.orphan_entries(deployment.namespace)
        claimed = yield from claim(
            candidates,
            lister=lister,
            owner=deployment.obj,
            owner_resource=DEPLOYMENTS,
            matches=deployment.selector.matches,
            fields_of=claim_fields_reader(lister),
        )
        return Rollout(
            deployment,
            [parse_replica_set(lister.object_of(entry)) for entry in claimed],
            clock=self._clock,
            templates=self._templates,
            backoff=self._backoff,
            counts_terminating=self._counts_terminating,
        )

    def _recreate(self, rollout: Rollout) -> Reconciliation:
        """Advance a rollout whose strategy is Recreate. Source: rolloutRecreate."""
        stops = stop_plan(rollout.old)
        yield from rollout.resize(stops)
        if stops or old_pods_running(rollout.new, rollout.old, self._phases(rollout.deployment.namespace, rollout.old)):
            yield Because(recreate_reason(rollout.old, stops))
            requeue = yield from rollout.sync_rollout_status()
            # No event announces the deletion of a pod that could never be read.
            return RequeueAfter(UNREADABLE_DELAY) if self._pods.unreadable(rollout.deployment.namespace) else requeue
        new = yield from rollout.ensure_new()
        yield from rollout.resize(start_plan(rollout.deployment, new))
        return (yield from _finish(rollout))

    def _phases(self, namespace: str, replica_sets: Sequence[ReplicaSet]) -> dict[str, list[str]]:
        """Return the phases of the pods of these ReplicaSets, by uid of the ReplicaSet; "Unknown" for unreadable
        pods.
        """
        phases = {}
        for replica_set in replica_sets:
            uid = replica_set.uid
            phases[uid] = [pod.facts.phase for pod in self._pods.entries_owned_by(uid)]
            if self._pods.first_unreadable(namespace, owner=uid) is not None:
                phases[uid].append("Unknown")
        return phases


def _roll(rollout: Rollout) -> Reconciliation:
    """Advance a rollout whose strategy is RollingUpdate. Source: rolloutRolling."""
    new = yield from rollout.ensure_new()
    old = active(rollout.old)  # ReplicaSets without pods are only kept as history
    growth = growth_plan(rollout.deployment, new, old)
    if growth:
        yield Because(growth_reason(rollout.deployment, new, growth))
        yield from rollout.resize(growth)
        return (yield from rollout.sync_rollout_status())
    shrinkage = shrink_plan(rollout.deployment, new, old)
    if shrinkage:
        yield Because(shrink_reason(rollout.deployment, new, old, shrinkage))
    elif old:
        yield Because(wait_reason(rollout.deployment, new, old))
    try:
        yield from rollout.resize(shrinkage)
    except CommandError:
        # Upstream drops this failure and waits for an event, which after a 5xx may never come. As upstream, write the
        # status first, so that a rollout that the failure delays runs into its deadline.
        yield from rollout.sync_rollout_status()
        raise
    if shrinkage:
        return (yield from rollout.sync_rollout_status())
    return (yield from _finish(rollout))


def _finish(rollout: Rollout) -> Reconciliation:
    """Delete old ReplicaSets if the rollout is complete, and write the status."""
    if is_complete(rollout.deployment, rollout.deployment.status):
        yield from rollout.clean_up()
    else:
        yield Because(progress_reason(rollout.deployment))
    return (yield from rollout.sync_rollout_status())


def _scale(rollout: Rollout, *, paused: bool) -> Reconciliation:
    """Resize the ReplicaSets after a change of spec.replicas, without advancing the rollout. Source: sync.

    paused: whether the Deployment is paused; old ReplicaSets are then deleted too.
    """
    yield from rollout.resize(scale_plan(rollout.deployment, rollout.new, rollout.old))
    if paused and requested_revision(rollout.deployment.annotations) is None:
        yield from rollout.clean_up()
    yield from rollout.sync_status()
    return None


def _warn_of_selecting_all(deployment: Deployment) -> Step[None]:
    message = "This deployment is selecting all pods. A non-empty selector is required."
    yield record(DEPLOYMENTS, deployment.obj, "Warning", "SelectingAll", message)
    if (deployment.status.get("observedGeneration") or 0) < deployment.generation:
        observed = with_status(deployment, observedGeneration=deployment.generation)
        yield from perform(update(DEPLOYMENTS, observed, subresource="status"))
