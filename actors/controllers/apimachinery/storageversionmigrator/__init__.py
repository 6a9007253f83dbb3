"""Storage version migrator: rewrites the stored objects of a resource in the present storage version.

A StorageVersionMigration names a resource. Three queues process it, one after the other, each with the conditions that
the one before has set:

- migration-runner-controller (key: the resource) sets Running on one migration of a resource at a time, the oldest. For
  a custom resource it also sets the condition StorageMigrating of the CustomResourceDefinition, and removes the old
  versions from its status.storedVersions once the migration has ended.
- resource-version-controller (key: the migration) writes the current resourceVersion of the resource to the status. All
  objects that were written before it may be stored in an old version.
- storage-version-migrator-controller (key: the migration) sends an empty server-side apply for each of these objects,
  and then sets Succeeded or Failed. The API server writes an object in the storage version if it was stored in another.

Input: StorageVersionMigrations, the garbage collector's tables of the metadata of all resources, live
CustomResourceDefinitions. Output: status of both, and the patches.

Source: kubernetes v1.36 pkg/controller/storageversionmigrator/{storageversionmigrator,resourceversion,migrationrunner,
util}.go, cmd/kube-controller-manager/app/storageversionmigrator.go. Differences:
- Up to PATCHES patches are in flight at a time. Upstream sends one after the other, with 20 times the rate limit.
- Each apply to a CustomResourceDefinition contains status.storedVersions. Upstream omits the field unless it changes
  it. An apply without a field removes it if no other manager has it, so that the next migration would be invalid.
- The end of a migration is recorded once in the CustomResourceDefinition. Upstream repeats it if the status of the
  migration cannot be written, and then removes the old versions although the definition changed during the migration.
- While its table is behind the checkpoint, a migration is retried every second. Upstream's backoff grows to minutes.
- Every response with a status from 500 on is retried, not only 500, 503 and 504.
- An unreadable object that may have to be migrated delays the end of the migration.
- Verbs and scope of a resource come from the discovery actor, which repeats discovery every 10 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kcm.actors.controllers.apimachinery.garbage_collector.options import GarbageCollectorOptions
from kcm.actors.controllers.apimachinery.storageversionmigrator.migrations import GroupResource, resource_of
from kcm.actors.controllers.apimachinery.storageversionmigrator.reconciler import StorageVersionMigrator
from kcm.actors.options import Options
from kcm.actors.options.versions import BINARY
from kcm.actors.reconciliation import Change, Interest, Watch, itself
from kcm.actors.reconciliation.discovered import Discovered
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key
from kcm.protocols.resources import STABLE_MIGRATIONS, STORAGE_VERSION_MIGRATIONS, Resource
from kcm.runtime.tables.tables import Tables

NAME = "storage-version-migrator-controller"
CHECKPOINTS, RUNNER = "resource-version-controller", "migration-runner-controller"
GATES = ("StorageVersionMigrator", "InformerResourceVersion")
SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))
NOTHING = Interest(types=("",))  # no change of an object enqueues a key


def its_resource(change: Change, _tables: Tables) -> Iterator[GroupResource]:
    yield resource_of(change.new)


def _every_resource(_served: ServedResource) -> bool:
    return True


def _no_keys(_resource: Resource, _change: Change, _tables: Tables) -> Iterable[Key]:
    return ()


def is_enabled(options: Options) -> bool:
    return all(options.feature_gates[gate] for gate in GATES)


def _check_needs(options: Options) -> Iterator[str]:
    """Check what upstream requires at the start of the controller."""
    if is_enabled(options) and not options[GarbageCollectorOptions].enabled:
        yield "storage version migrator requires garbage collector"
    if is_enabled(options) and not options.feature_gates["InOrderInformers"]:
        yield "storage version migrator requires the InOrderInformers feature gate to be enabled"


def migrations_of(options: Options) -> Resource:
    """Return the resource in the version that API servers of the emulated release serve."""
    return STABLE_MIGRATIONS if options.versions.emulation > BINARY else STORAGE_VERSION_MIGRATIONS


def _of_release(spec: ControllerSpec, options: Options) -> ControllerSpec:
    resource = migrations_of(options)
    queues = tuple(
        replace(queue, watches=tuple(replace(watch, resource=resource) for watch in queue.watches))
        for queue in spec.queues
    )
    return replace(spec, queues=queues)


def _build(context: ControllerContext) -> StorageVersionMigrator:
    return StorageVersionMigrator(
        tables=context.tables, clock=context.clock, log=context.log, resource=migrations_of(context.options)
    )


SPEC = ControllerSpec(
    name=NAME,
    aliases=("svm",),
    never_blocks=True,
    enabled_if=is_enabled,
    needs="--feature-gates=StorageVersionMigrator=true",
    start_checks=(_check_needs,),
    qps=lambda options: 20 * options.client_limits.qps,
    burst=lambda options: 100 * options.client_limits.burst,
    queues=(
        Queue(
            NAME,
            watches=(Watch(STORAGE_VERSION_MIGRATIONS, to=itself, interest=SEEN),),
            reconcile=StorageVersionMigrator.migrate,
            concurrency=5,
            terminal=(),
        ),
        Queue(
            CHECKPOINTS,
            watches=(Watch(STORAGE_VERSION_MIGRATIONS, to=itself, interest=SEEN),),
            reconcile=StorageVersionMigrator.set_checkpoint,
            concurrency=1,
            terminal=(),
        ),
        Queue(
            RUNNER,
            watches=(Watch(STORAGE_VERSION_MIGRATIONS, to=its_resource),),
            reconcile=StorageVersionMigrator.run,
            concurrency=1,
            terminal=(),
            reports_as=CHECKPOINTS,  # upstream gives both queues this name
        ),
    ),
    # The garbage collector's tables. Without it there are none, and every migration fails.
    discovers=Discovered(select=_every_resource, to=_no_keys, interest=NOTHING, only_shared=True),
    build=_build,
    adapted=_of_release,
)
