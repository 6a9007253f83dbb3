"""Reconciler of ResourceClaims.

- pod, PodGroup: generates the missing claims from their templates, and writes the names of the claims to
  status.resourceClaimStatuses. An allocated claim of a pod that is bound to a node is reserved for the pod.
- claim: removes deleted and finished consumers from status.reservedFor. With the last consumer, the claim is
  deallocated and loses its protection finalizer. A generated claim whose pod will not run any more is deleted.

Input: pods, ResourceClaims, ResourceClaimTemplates; with the feature gate DRAWorkloadResourceClaims also PodGroups.

Source: kubernetes v1.36 pkg/controller/resourceclaim/controller.go. Differences:

- The controller chooses the names of claims (actors/controllers/shared/generated_names.py), so that a creation with
  unknown outcome is retried under the same name.
- A new name is applied together with the names that the status contains already. Upstream applies the new names alone,
  and server-side apply then removes the others, which are applied in the next sync, and so on without an end.
- A claim that a status names and the table does not contain is read from the server before another claim is created.
  Upstream creates a second claim if its informer of pods is ahead of that of claims, as after a change of the leader.
- If the table contains another pod with the name of a consumer or of an owner, the pod is read from the server, because
  the table may be older than the claim. Upstream then removes a reservation, or deletes a claim, of the newer pod.
- A claim whose consumer exists, but is not in the table, is checked again (live_reads.py).
- With the feature gate DRAWorkloadResourceClaims, a claim of another owner is an error of a pod without a PodGroup.
  Upstream crashes.
- A generated claim that a user deletes is generated again, as upstream intends. Upstream finds the deleted claim in its
  cache of own creations for an hour. A finished pod gets no claim; upstream creates it, deletes it, and finds it in
  that cache.
- A claim that is being deleted is not reserved (may_be_reserved).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from kcm.actors.controllers.devices.resource_claim.claims import (
    claim_from_template,
    disabled_feature,
    generated_claim,
    is_done,
    name_base,
    with_consumer,
    with_consumers,
    without_protection,
)
from kcm.actors.controllers.devices.resource_claim.metrics import ResourceClaimMetrics
from kcm.actors.controllers.devices.resource_claim.watches import (
    CLAIM,
    DELETED,
    GROUP,
    POD,
    QUEUE,
    claim_value,
    group_of,
    may_be_reserved,
)
from kcm.actors.controllers.shared.generated_names import as_if_generated, lasting_name
from kcm.actors.controllers.shared.live_reads import UNSEEN_CHECK
from kcm.actors.reconciliation import (
    Because,
    Enqueue,
    Reconciliation,
    Retry,
    Step,
    apply,
    create,
    delete,
    get_live,
    must,
    perform,
    record,
    update,
)
from kcm.protocols.integers import counted
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Refused
from kcm.protocols.objects import (
    Key,
    Object,
    controller_of,
    decode_object,
    finalizers_of,
    is_deleting,
    key_of,
    make_key,
    name_of,
    namespace_of,
    split_key,
    uid_of,
)
from kcm.protocols.resource_claims import (
    DELETE_PROTECTION,
    allocation_of,
    binds_to_group,
    claim_entries,
    claim_name,
    consumer_of,
    consumers_of,
    group_owner_problem,
    is_pod,
    is_pod_group,
    owner_problem,
    owning_pod,
    requests_admin_access,
)
from kcm.protocols.resources import (
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

FIELD_MANAGER = "ResourceClaimController"
MOST_DELETED = 500  # uids of deleted pods and PodGroups to remember
RETRY_DELAY = 1.0  # seconds until the next sync if the name of a new claim is taken
EVENT = "FailedResourceClaimCreation"


class Features(Struct, frozen=True, kw_only=True):
    """Feature gates: DRAAdminAccess, DRAPrioritizedList and DRAWorkloadResourceClaims."""

    admin_access: bool = True
    prioritized_list: bool = True
    groups: bool = False


class ClaimError(Exception):
    """A claim cannot be generated, or the claim of a pod belongs to another owner. A user must change something."""


class ResourceClaimReconciler:
    """Reconciles pods, PodGroups and ResourceClaims. Keys: see watches.py."""

    def __init__(
        self, *, tables: Tables, features: Features, metrics: ResourceClaimMetrics, log: FilteringBoundLogger
    ) -> None:
        self._features, self._metrics, self._log = features, metrics, log
        self._pods, self._claims = tables[PODS], tables[RESOURCE_CLAIMS]
        self._templates = tables[RESOURCE_CLAIM_TEMPLATES]
        self._groups = tables[POD_GROUPS] if features.groups else None
        self._deleted: OrderedDict[str, None] = OrderedDict()  # uids of deleted pods and PodGroups

    def reconcile(self, key: str) -> Reconciliation:
        kind, _, name = key.partition(":")
        if kind == POD:
            yield from self._sync_pod(name)
        elif kind == GROUP:
            yield from self._sync_group(name)
        elif kind == CLAIM:
            yield from self._sync_claim(name)
        elif kind == DELETED:
            self._remember_deleted(name)
        return None

    def _remember_deleted(self, uid: str) -> None:
        """Remember the uid of a deleted pod, so that its existence need not be checked on the server."""
        self._deleted[uid] = None
        self._deleted.move_to_end(uid)
        if len(self._deleted) > MOST_DELETED:
            self._deleted.popitem(last=False)

    # Pods and PodGroups.

    def _sync_pod(self, key: Key) -> Step[None]:
        """Generate the pod's claims, and reserve its allocated claims. Source: syncPod."""
        entry = self._pods.entry(key)
        if entry is None or entry.facts.deleting or is_done(entry.facts):
            return
        pod = self._pods.object_of(entry)
        group = group_of(pod, self._groups)
        yield from self._generate_claims(pod, PODS, group)
        written = self._pods.get(key)  # with the names that were just written
        if written is not None and (written.get("spec") or {}).get("nodeName"):
            yield from self._reserve_claims(written, group)

    def _sync_group(self, key: Key) -> Step[None]:
        """Generate the claims of a PodGroup. Source: syncPodGroup."""
        group = None if self._groups is None else self._groups.get(key)
        if group is not None and not is_deleting(group):
            yield from self._generate_claims(group, POD_GROUPS, None)

    def _generate_claims(self, user: Object, of: Resource, group: Object | None) -> Step[None]:
        """Generate missing claims of a pod or PodGroup, and write their names to its status.

        of: resource of the user.
        group: PodGroup of a pod.
        """
        names: dict[str, str] = {}
        for entry in claim_entries(user):
            try:
                name = yield from self._claim_for(user, of, group, entry)
            except (ClaimError, CommandError) as err:
                if not (isinstance(err, CommandError) and isinstance(err.failure, Refused)):
                    text = f"create ResourceClaim : {err.failure.message}" if isinstance(err, CommandError) else err
                    about = f"{of.kind}ResourceClaim {entry.get('name')}"
                    yield record(of, user, "Warning", EVENT, f"{about}: {text}")
                raise
            if name:
                names[entry.get("name") or ""] = name
        if names:
            yield Because(f"writes the names of its claims to its status: {', '.join(names.values())}")
            meta = {"name": name_of(user), "namespace": namespace_of(user), "uid": uid_of(user)}
            status = {"resourceClaimStatuses": list(_statuses(user, names))}
            command = apply(
                of, {"metadata": meta, "status": status}, force=True, manager=FIELD_MANAGER, subresource="status"
            )
            yield from must(command, but=(NotFound,))

    def _claim_for(self, user: Object, of: Resource, group: Object | None, entry: Mapping[str, Any]) -> Step[str]:
        """Return the name to write to the status for an entry of spec.resourceClaims, and generate its claim if needed.

        Returns "" if there is nothing to write. Source: handleClaim, handlePodGroupClaim.
        """
        found, entry_name = claim_name(user, entry), entry.get("name") or ""
        if found is None:
            kind = "pod" if of is PODS else "PodGroup"
            raise ClaimError(
                f'checking for claim before creating it: {kind} "{key_of(user)}", spec.resourceClaim "{entry_name}": '
                "none of the supported fields are set"
            )
        if found.name is None:
            return ""
        if found.name:
            claim = yield from self._recorded_claim(make_key(namespace_of(user), found.name), found.template)
            problem = self._owner_problem(user, of, claim) if claim is not None and found.template else ""
            if claim is not None and not problem:
                return ""
            if problem:
                self._log.error("owner of the generated claim has changed, creating a new claim", error=problem)
        if not found.template:
            return ""
        owner = user
        if group is not None and binds_to_group(entry, group):
            owner, of = group, POD_GROUPS
        claim = generated_claim(self._claims.owned_by(uid_of(owner)), entry_name)
        if claim is not None:
            return name_of(claim)
        if owner is not user:
            return ""  # the sync of the PodGroup generates the claim
        return (yield from self._generate(user, of, entry_name, found.template, recorded=found.name))

    def _recorded_claim(self, key: Key, template: str) -> Step[Object | None]:
        """Return the claim with this key; None if it does not exist.

        A claim that would be generated again is read from the server if the table does not contain it.

        template: name of the template of a generated claim; "" for a claim that a user creates.
        """
        claim = self._claims.get(key)
        if claim is None and template:
            outcome = yield from must(get_live(RESOURCE_CLAIMS, key), but=(NotFound,))
            claim = decode_object(outcome.body) if isinstance(outcome, Done) else None
        return claim

    def _owner_problem(self, user: Object, of: Resource, claim: Object) -> str:
        if of is POD_GROUPS:
            return group_owner_problem(user, claim)
        return owner_problem(user, claim, accept_group=self._features.groups)

    def _generate(self, owner: Object, of: Resource, entry: str, template_name: str, *, recorded: str) -> Step[str]:
        """Create the claim for an entry, and return its name.

        recorded: name of an earlier claim in the status, which was deleted or has another owner. It is not used again.
        """
        namespace = namespace_of(owner)
        template = self._templates.get(make_key(namespace, template_name))
        if template is None:
            yield Because(f"waits for ResourceClaimTemplate {template_name}, which does not exist")
            what = f'{RESOURCE_CLAIM_TEMPLATES.kind.lower()}.{RESOURCE_CLAIM_TEMPLATES.group} "{template_name}"'
            raise ClaimError(f'resource claim template "{template_name}": {what} not found')
        problem = disabled_feature(
            template, admin_access=self._features.admin_access, prioritized_list=self._features.prioritized_list
        )
        if problem:
            raise ClaimError(problem)
        base = name_base(name_of(owner), entry)
        name = lasting_name(owner, entry, base=base, taken=lambda key: self._is_taken(key, recorded))
        claim = claim_from_template(template, owner=owner, of=of, entry=entry, name=name)
        yield Because(f"has no claim for {entry}: creates {name} from template {template_name}")
        command = create(RESOURCE_CLAIMS, claim)
        outcome = yield from perform(command)
        if isinstance(outcome, AlreadyExists):
            yield from self._check_existing(make_key(namespace, name), owner)
            return name
        admin_access = requests_admin_access(claim["spec"])
        self._metrics.created(succeeded=isinstance(outcome, Done), admin_access=admin_access)
        if not isinstance(outcome, Done):
            raise CommandError(command, as_if_generated(outcome, name, base=base))
        self._log.info("Created ResourceClaim", v=4, claim=make_key(namespace, name), owner=key_of(owner))
        return name

    def _is_taken(self, key: Key, recorded: str) -> bool:
        return key.rpartition("/")[2] == recorded or self._claims.entry(key) is not None

    def _check_existing(self, key: Key, owner: Object) -> Step[None]:
        """Check the existing claim with the name of a new claim. Raises Retry if it does not belong to the owner."""
        outcome = yield from must(get_live(RESOURCE_CLAIMS, key), but=(NotFound,))
        existing = controller_of(decode_object(outcome.body)) if isinstance(outcome, Done) else None
        if existing is None or existing.uid != uid_of(owner):
            raise Retry(f"the name of the new claim is taken: {key}", after=RETRY_DELAY)

    def _reserve_claims(self, pod: Object, group: Object | None) -> Step[None]:
        """Reserve the allocated claims of a pod that is bound to a node.

        The scheduler reserves them before it binds the pod; this is for pods that were bound without it.
        """
        for entry in claim_entries(pod):
            found = claim_name(pod, entry)
            if found is None or found.name == "":
                return  # the sync of the PodGroup generates the claim
            if found.name is None:
                continue
            claim = self._claims.get(make_key(namespace_of(pod), found.name))
            if claim is None:
                return
            problem = self._owner_problem(pod, PODS, claim) if found.template else ""
            if problem:
                raise ClaimError(problem)
            if may_be_reserved(pod, claim, accept_group=self._features.groups):
                of_group = binds_to_group(entry, group)
                yield Because(f"is bound to a node: reserves its allocated claim {found.name}")
                consumer = consumer_of(group if of_group and group is not None else pod, is_group=of_group)
                yield from must(update(RESOURCE_CLAIMS, with_consumer(claim, consumer), subresource="status"))
                self._log.info(
                    "Reserve claim", v=5, claim=key_of(claim), pod=key_of(pod), reservedForResource=consumer["resource"]
                )

    # Claims.

    def _sync_claim(self, key: Key) -> Step[None]:
        """Remove deleted and finished consumers, and delete a generated claim that its pod will not use.

        Source: syncClaim.
        """
        claim = self._claims.get(key)
        if claim is None:
            return
        consumers = consumers_of(claim)
        remaining = list(consumers)
        for consumer in consumers:
            if not (yield from self._needs(consumer, key)):
                remaining.remove(consumer)
        if len(remaining) < len(consumers):
            yield Because(
                f"{len(consumers) - len(remaining)} of {counted(len(consumers), 'consumer')} ended: releases it"
            )
            yield from self._release(claim, with_consumers(claim, remaining))
        elif not remaining and is_deleting(claim) and DELETE_PROTECTION in finalizers_of(claim):
            yield Because("is being deleted without consumers: deallocates it and removes its finalizer")
            yield from self._release(claim, with_consumers(claim, ()))
        elif remaining:
            yield Because(f"is reserved for {counted(len(remaining), 'consumer')}, such as {remaining[0].get('name')}")
        if not remaining:
            yield from self._delete_unused(key)

    def _needs(self, consumer: Mapping[str, Any], claim: Key) -> Step[bool]:
        """Report whether a consumer in status.reservedFor needs the claim; True for unknown resources."""
        key = make_key(split_key(claim)[0], consumer.get("name") or "")
        if is_pod(consumer):
            entry = self._pods.entry(key)
            if entry is not None and entry.uid == consumer.get("uid"):
                return not is_done(entry.facts)
            return (yield from self._exists(PODS, key, consumer.get("uid") or "", claim=claim))
        if is_pod_group(consumer) and self._groups is not None:
            entry = self._groups.entry(key)
            if entry is not None and entry.uid == consumer.get("uid"):
                return True
            return (yield from self._exists(POD_GROUPS, key, consumer.get("uid") or "", claim=claim))
        return True

    def _exists(self, resource: Resource, key: Key, uid: str, *, claim: Key) -> Step[bool]:
        """Report whether the object with this uid, which the table does not contain, exists on the server.

        If it does, the claim is enqueued again (live_reads.py).
        """
        if uid in self._deleted:
            return False
        outcome = yield from must(get_live(resource, key), but=(NotFound,))
        if not isinstance(outcome, Done) or uid_of(decode_object(outcome.body)) != uid:
            return False
        yield Enqueue(QUEUE, claim_value(claim), after=UNSEEN_CHECK)
        return True

    def _release(self, claim: Object, released: Object) -> Step[None]:
        """Write the changed status of a claim that lost consumers, and remove the finalizer if it is deallocated.

        An update, not a patch: it fails if the claim has changed in the meantime.
        """
        if released["status"] != (claim.get("status") or {}):
            outcome = yield from must(update(RESOURCE_CLAIMS, released, subresource="status"), but=(NotFound,))
            if not isinstance(outcome, Done):
                return
            released = decode_object(outcome.body)
            self._log.info(
                "Removed consumers",
                v=5,
                claim=key_of(claim),
                currentCount=len(consumers_of(released)),
                allocated=allocation_of(released) is not None,
            )
        if DELETE_PROTECTION in finalizers_of(released) and allocation_of(released) is None:
            yield from must(update(RESOURCE_CLAIMS, without_protection(released)), but=(NotFound,))
            self._log.info("Removed finalizer", v=5, claim=key_of(claim))

    def _delete_unused(self, key: Key) -> Step[None]:
        """Delete a claim without consumers whose pod was replaced or will not run any more.

        The garbage collector deletes the claims of deleted pods, but a pod may exist for a long time after its end.
        """
        claim = self._claims.get(key)
        owner = None if claim is None or is_deleting(claim) else owning_pod(claim)
        if claim is None or owner is None:
            return
        pod_key, uid = owner
        entry = self._pods.entry(pod_key)
        if entry is None:
            return  # the table may not contain the pod yet
        if entry.uid == uid:
            if not is_done(entry.facts):
                return
        elif (yield from self._exists(PODS, pod_key, uid, claim=key)):
            return
        yield Because(f"was generated for pod {pod_key}, which does not run any more: deletes it")
        command = delete(RESOURCE_CLAIMS, claim, depends_on=((PODS, pod_key),))
        outcome = yield from must(command, but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("Deleted unused generated claim", v=5, claim=key, pod=pod_key)


def _statuses(user: Object, names: Mapping[str, str]) -> Iterator[Object]:
    """Yield the entries of status.resourceClaimStatuses, with new names and those that the status contains."""
    for entry in claim_entries(user):
        found, entry_name = claim_name(user, entry), entry.get("name") or ""
        name = names.get(entry_name) or (found.name if found is not None and found.template else "")
        if name:
            yield {"name": entry_name, "resourceClaimName": name}
