"""StorageVersion garbage collector: removes the entries of API servers that no longer exist from StorageVersions.

Every API server holds an identity Lease in kube-system, and reports in the StorageVersion of each resource the version
in which it encodes the resource.

The queue storage_version_garbage_collector_leases contains names of identity Leases that were deleted, the queue
storage_version_garbage_collector_storageversions names of StorageVersions with an entry whose Lease the table does not
contain. Both decide by live reads. A StorageVersion without entries is deleted; otherwise status.commonEncodingVersion
and the condition AllEncodingVersionsEqual are updated.

Source: kubernetes v1.36 pkg/controller/storageversiongc/gc_controller.go, apiserver pkg/storageversion/updater.go
(SetCommonEncodingVersion). Differences:
- An entry is removed only if its Lease does not exist, or is no identity Lease. Upstream removes it if the read of the
  Lease fails for any reason.
- A deletion has the uid and the resourceVersion as preconditions, so that an entry that was just added is not lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.options import Options
from kcm.actors.reconciliation import (
    Because,
    Change,
    Interest,
    Reconciliation,
    Step,
    Watch,
    delete,
    list_live,
    must,
    must_object,
    update,
)
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.conditions import find_condition
from kcm.protocols.messages.commands import Get
from kcm.protocols.messages.outcomes import Done, Invalid, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, decode_object, labels_of, make_key, metadata, name_of
from kcm.protocols.resources import LEASES, STORAGE_VERSIONS
from kcm.protocols.times import format_time
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

GATES = ("APIServerIdentity", "StorageVersionAPI")
NAMESPACE = "kube-system"
LABEL, API_SERVER = "apiserver.kubernetes.io/identity", "kube-apiserver"
EQUAL = "AllEncodingVersionsEqual"
DELETED = Interest(types=(EventType.DELETED,))
SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))


def is_identity(lease: Mapping[str, Any]) -> bool:
    """Report whether a Lease is that of an API server. Leases of leader elections are not."""
    return labels_of(lease).get(LABEL) == API_SERVER


def servers_of(version: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return (version.get("status") or {}).get("storageVersions") or ()


def with_servers(version: Object, servers: Sequence[Mapping[str, Any]], now: float) -> Object:
    """Return a copy of a StorageVersion with these entries, and the values in its status that follow from them.

    Source: SetCommonEncodingVersion.
    """
    status = {**(version.get("status") or {}), "storageVersions": list(servers)}
    before = status.pop("commonEncodingVersion", None)
    versions = {server.get("encodingVersion") or "" for server in servers}
    common = versions.pop() if len(versions) == 1 else None
    if common is not None:
        status["commonEncodingVersion"] = common
    conditions = status.get("conditions") or []
    known = find_condition(conditions, EQUAL)
    condition: Object = {
        "type": EQUAL,
        "status": "False" if common is None else "True",
        "observedGeneration": metadata(version).get("generation") or 0,
        "lastTransitionTime": format_time(now),
        "reason": "CommonEncodingVersionUnset" if common is None else "CommonEncodingVersionSet",
        "message": "Common encoding version unset" if common is None else "Common encoding version set",
    }
    if not condition["observedGeneration"]:
        del condition["observedGeneration"]
    if known is None:
        return {**version, "status": {**status, "conditions": [*conditions, condition]}}
    other_version = before is not None and common is not None and before != common
    if known.get("status") == condition["status"] and not other_version:
        condition["lastTransitionTime"] = known.get("lastTransitionTime")
    # Upstream does not update observedGeneration of a condition that exists.
    condition = {**known, **{name: value for name, value in condition.items() if name != "observedGeneration"}}
    changed = [condition if other is known else other for other in conditions]
    return {**version, "status": {**status, "conditions": changed}}


class StorageVersionCollector:
    """Reconciler of both queues."""

    def __init__(self, *, clock: Clock, log: FilteringBoundLogger) -> None:
        self._clock, self._log = clock, log

    def remove_server(self, name: str) -> Reconciliation:
        """Remove the entries of an API server whose identity Lease was deleted. Source: processDeletedLease."""
        lease = yield from must(Get(LEASES.id, make_key(NAMESPACE, name)), but=(NotFound,))
        if isinstance(lease, Done):
            return None
        versions = yield from must_object(list_live(STORAGE_VERSIONS))
        for version in versions.get("items") or ():
            remaining = [server for server in servers_of(version) if server.get("apiServerID") != name]
            if len(remaining) < len(servers_of(version)):
                yield Because(f"API server {name} has ended: removes it from {name_of(version)}")
                yield from self._write(version, remaining)
        return None

    def remove_invalid(self, key: Key) -> Reconciliation:
        """Remove the entries of a StorageVersion that have no identity Lease. Source: syncStorageVersion."""
        found = yield from must(Get(STORAGE_VERSIONS.id, key), but=(NotFound,))
        if not isinstance(found, Done):
            return None
        version = decode_object(found.body)
        remaining = []
        for server in servers_of(version):
            name = server.get("apiServerID") or ""
            if name:
                lease = yield from must(Get(LEASES.id, make_key(NAMESPACE, name)), but=(NotFound, Invalid))
                if isinstance(lease, Done) and is_identity(decode_object(lease.body)):
                    remaining.append(server)
        if len(remaining) < len(servers_of(version)):
            yield Because(f"has {len(servers_of(version)) - len(remaining)} API servers without a Lease: removes them")
            yield from self._write(version, remaining)
        return None

    def _write(self, version: Object, servers: Sequence[Mapping[str, Any]]) -> Step[None]:
        name = name_of(version)
        if not servers:
            yield from must(delete(STORAGE_VERSIONS, version, unchanged=True, depends_on=()), but=(NotFound,))
            self._log.info("deleted StorageVersion, no API server has it", key=name)
            return
        changed = with_servers(version, servers, self._clock.now())
        yield from must(update(STORAGE_VERSIONS, changed, subresource="status"), but=(NotFound,))
        self._log.info("removed API servers from StorageVersion", key=name, servers=len(servers))


def deleted_server(change: Change, _tables: Tables) -> Iterator[str]:
    if change.namespace == NAMESPACE and is_identity(change.new):
        yield name_of(change.new)


def invalid_version(change: Change, tables: Tables) -> Iterable[Key]:
    """Enqueue a StorageVersion with an entry whose identity Lease the table does not contain."""
    leases = tables[LEASES]
    for server in servers_of(change.new):
        lease = leases.get(make_key(NAMESPACE, server.get("apiServerID") or ""))
        if lease is None or not is_identity(lease):
            return (change.key,)
    return ()


def is_enabled(options: Options) -> bool:
    return all(options.feature_gates[gate] for gate in GATES)


def _build(context: ControllerContext) -> StorageVersionCollector:
    return StorageVersionCollector(clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="storageversion-garbage-collector-controller",
    aliases=("storage-version-gc",),
    never_blocks=True,
    client="storage-version-garbage-collector",
    enabled_if=is_enabled,
    needs="--feature-gates=APIServerIdentity=true,StorageVersionAPI=true",
    queues=(
        Queue(
            "storage_version_garbage_collector_leases",
            watches=(Watch(LEASES, to=deleted_server, interest=DELETED),),
            reconcile=StorageVersionCollector.remove_server,
            concurrency=1,
            terminal=(),
        ),
        Queue(
            "storage_version_garbage_collector_storageversions",
            watches=(Watch(STORAGE_VERSIONS, to=invalid_version, interest=SEEN),),
            reconcile=StorageVersionCollector.remove_invalid,
            concurrency=1,
            terminal=(),
        ),
    ),
    build=_build,
)
