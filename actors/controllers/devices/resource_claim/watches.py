"""Watches of the resource claim controller, and the keys that changes enqueue.

A key is text as in upstream: "claim:namespace/name", "pod:…" or "podgroup:…". "deleted:uid" reports that a pod or
PodGroup with this uid was deleted.

Source: kubernetes v1.36 pkg/controller/resourceclaim/controller.go (enqueuePod, enqueuePodGroup, enqueueResourceClaim,
enqueueResourceClaimTemplate, podNeedsWork, podGroupNeedsWork).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from kcm.actors.controllers.devices.resource_claim.claims import is_done
from kcm.actors.reconciliation import Change, Index, Interest, Watch
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, is_deleting, key_of, make_key, namespace_of, uid_of
from kcm.protocols.resource_claims import (
    ClaimName,
    allocation_of,
    binds_to_group,
    claim_entries,
    claim_name,
    claim_names,
    extended_claim_name,
    is_reserved_for,
    owner_problem,
    pod_group_name,
)
from kcm.protocols.resources import POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry
from kcm.runtime.tables.tables import Tables

QUEUE = "resource_claim"
CLAIM, POD, GROUP, DELETED = "claim", "pod", "podgroup", "deleted"  # kinds of keys

USES = "resource claims"
ANY = "any"  # value of the index for every pod or PodGroup with claims


def claim_value(key: Key) -> str:
    """Return the queue's key for a claim, which is also its value in the index USES."""
    return f"{CLAIM}:{key}"


def template_value(key: Key) -> str:
    return f"template:{key}"


def group_value(key: Key) -> str:
    """Return the queue's key for a PodGroup, which is also its value in the index USES."""
    return f"{GROUP}:{key}"


def uses(user: Mapping[str, Any]) -> Iterable[str]:
    """Return the values of a pod or PodGroup in the index USES.

    They are ANY, and the claims, templates and the PodGroup that it refers to; none if it has no claims.
    """
    if not (user.get("spec") or {}).get("resourceClaims"):
        return (ANY,) if extended_claim_name(user) else ()
    return dict.fromkeys(_uses(user))


def _uses(user: Mapping[str, Any]) -> Iterator[str]:
    namespace, group = namespace_of(user), pod_group_name(user)
    yield ANY
    for entry in claim_entries(user):
        template = entry.get("resourceClaimTemplateName")
        if template:
            yield template_value(make_key(namespace, template))
    for name in claim_names(user):
        yield claim_value(make_key(namespace, name))
    if group:
        yield group_value(make_key(namespace, group))


PODS_BY_USE, GROUPS_BY_USE = Index(PODS, USES, uses), Index(POD_GROUPS, USES, uses)
WITH_CLAIMS = Interest(indexed=((USES, ANY),))


class PodGroupMissingError(Exception):
    """Raised if a pod refers to a PodGroup that does not exist. cause: the API server's text."""

    def __init__(self, pod: Object) -> None:
        self.cause = f'podgroup.{POD_GROUPS.group} "{pod_group_name(pod)}" not found'
        super().__init__(f"get PodGroup for Pod {key_of(pod)}: {self.cause}")


def group_of(pod: Object, groups: Lister[Object] | None) -> Object | None:
    """Return the PodGroup of a pod; None if it has none. Raises PodGroupMissingError.

    groups: None if the feature gate DRAWorkloadResourceClaims is disabled: then no pod has a PodGroup.
    """
    name = pod_group_name(pod)
    if groups is None or not name:
        return None
    found = groups.get(make_key(namespace_of(pod), name))
    if found is None:
        raise PodGroupMissingError(pod)
    return found


def pod_needs_work(pod: Object, *, claims: Lister[Object], groups: Lister[Object] | None) -> bool:
    """Report whether a claim of an unfinished pod must be generated, or reserved for the pod. Source: podNeedsWork."""
    accept_group = groups is not None
    for entry in claim_entries(pod):
        found = claim_name(pod, entry)
        if found is None or found.name == "":
            return True
        if found.name is None:
            continue
        claim = claims.get(make_key(namespace_of(pod), found.name))
        if claim is None:
            if found.template and _must_be_generated(pod, entry, groups):
                return True
        elif found.template and owner_problem(pod, claim, accept_group=accept_group):
            continue  # unless the other claim is deleted, nothing can be done
        elif may_be_reserved(pod, claim, accept_group=accept_group):
            return True
    return False


def _must_be_generated(pod: Object, entry: Mapping[str, Any], groups: Lister[Object] | None) -> bool:
    """Report whether the missing claim for an entry is generated for the pod, not for its PodGroup."""
    try:
        return not binds_to_group(entry, group_of(pod, groups))
    except PodGroupMissingError:
        return True


def may_be_reserved(pod: Object, claim: Object, *, accept_group: bool) -> bool:
    """Report whether a claim is allocated, but not reserved for the pod, which is bound to a node.

    A claim that is being deleted is not reserved, because the server rejects this. Upstream tries again and again.
    """
    return (
        bool((pod.get("spec") or {}).get("nodeName"))
        and allocation_of(claim) is not None
        and not is_deleting(claim)
        and not is_reserved_for(pod, claim, accept_group=accept_group)
    )


def group_needs_work(group: Object, *, claims: Lister[Object]) -> bool:
    """Report whether a claim of the PodGroup must be generated. Source: podGroupNeedsWork."""
    return not is_deleting(group) and any(
        _is_missing(group, claim_name(group, entry), claims) for entry in claim_entries(group)
    )


def _is_missing(group: Object, found: ClaimName | None, claims: Lister[Object]) -> bool:
    if found is None or found.name == "":
        return True
    if not found.name or not found.template:
        return False
    return claims.get(make_key(namespace_of(group), found.name)) is None


class Enqueuing(Struct, frozen=True):
    """Functions that return the keys of changes.

    groups: whether the feature gate DRAWorkloadResourceClaims is enabled.
    """

    groups: bool = False

    def of_pod(self, change: Change, tables: Tables) -> Iterator[str]:
        replaced = change.replaced
        if replaced is not None:
            yield from _left_by(replaced)
        if change.deleted:
            yield from _left_by(change.new)
            return
        entry = tables[PODS].entry(change.key)
        if entry is None:
            return  # it was deleted meanwhile
        if is_done(entry.facts):
            yield from _claims_of(tables[PODS].object_of(entry))
            # The pod may have ended before the names of its claims were written to its status.
            for claim in tables[RESOURCE_CLAIMS].entries_owned_by(entry.uid):
                yield claim_value(claim.key)
        yield from self._of_pod(entry, tables)

    def of_group(self, change: Change, tables: Tables) -> Iterator[str]:
        replaced = change.replaced
        if replaced is not None:
            yield from _left_by(replaced)
        if change.deleted:
            yield from _left_by(change.new)
        else:
            yield from self._of_group(change.new, tables)
        # A pod of the group gets the names of the group's claims once these are known.
        for pod in tables[PODS].indexed_entries(USES, group_value(change.key)):
            yield from self._of_pod(pod, tables)

    def of_claim(self, change: Change, tables: Tables) -> Iterator[str]:
        """Return the keys of the claim, unless it was deleted, and of the pods and PodGroups that need work for it.

        At the start every claim is enqueued, so that reservations for pods which no longer exist are found.
        """
        if not change.deleted:
            yield claim_value(change.key)
        yield from self._users(claim_value(change.key), tables)

    def of_template(self, change: Change, tables: Tables) -> Iterator[str]:
        yield from self._users(template_value(change.key), tables)

    def _users(self, value: str, tables: Tables) -> Iterator[str]:
        for pod in tables[PODS].indexed_entries(USES, value):
            yield from self._of_pod(pod, tables)
        if self.groups:
            for group in tables[POD_GROUPS].indexed(USES, value):
                yield from self._of_group(group, tables)

    def _of_pod(self, entry: Entry, tables: Tables) -> Iterator[str]:
        if entry.facts.deleting or is_done(entry.facts):
            return
        groups = tables[POD_GROUPS] if self.groups else None
        if pod_needs_work(tables[PODS].object_of(entry), claims=tables[RESOURCE_CLAIMS], groups=groups):
            yield f"{POD}:{entry.key}"

    def _of_group(self, group: Object, tables: Tables) -> Iterator[str]:
        if group_needs_work(group, claims=tables[RESOURCE_CLAIMS]):
            yield group_value(key_of(group))

    @property
    def watches(self) -> tuple[Watch[str], ...]:
        of_groups = (Watch(POD_GROUPS, to=self.of_group, interest=WITH_CLAIMS),) if self.groups else ()
        return (
            Watch(PODS, to=self.of_pod, interest=WITH_CLAIMS),
            *of_groups,
            # The sync of a pod does all that follows a new claim, and that of a claim all that follows a release.
            Watch(RESOURCE_CLAIMS, to=self.of_claim, interest=Interest(own_writes=False)),
            Watch(
                RESOURCE_CLAIM_TEMPLATES,
                to=self.of_template,
                interest=Interest(types=(EventType.ADDED, EventType.MODIFIED)),
            ),
        )

    @property
    def indexes(self) -> tuple[Index, ...]:
        return (PODS_BY_USE, GROUPS_BY_USE) if self.groups else (PODS_BY_USE,)


def _left_by(user: Object) -> Iterator[str]:
    """Return the keys for a pod or PodGroup that was deleted: its uid first, so that no sync has to read it live."""
    yield f"{DELETED}:{uid_of(user)}"
    yield from _claims_of(user)


def _claims_of(user: Object) -> Iterator[str]:
    namespace, extended = namespace_of(user), extended_claim_name(user)
    for name in (*claim_names(user), *((extended,) if extended else ())):
        yield claim_value(make_key(namespace, name))
