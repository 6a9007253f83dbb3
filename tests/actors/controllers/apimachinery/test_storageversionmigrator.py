"""Storage version migrator: upstream's cases for its three queues, and a migration in a simulated cluster.

Cases: kubernetes v1.36 pkg/controller/storageversionmigrator/{migrationrunner,resourceversion,
storageversionmigrator}_test.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.apimachinery import garbage_collector
from kcm.actors.controllers.apimachinery.storageversionmigrator import CHECKPOINTS, NAME, RUNNER, SPEC
from kcm.actors.controllers.apimachinery.storageversionmigrator.migrations import (
    GroupResource,
    is_retriable,
    is_well_formed,
    runner_plan,
    with_condition,
)
from kcm.actors.controllers.apimachinery.storageversionmigrator.reconciler import StorageVersionMigrator
from kcm.actors.reconciliation import Reconciliation, Retry
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import NOW, Bench, Driven, drive_steps
from kcm.actors.simulation.trials.apimachinery.storageversionmigrator import gauges, serve_migrations
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, List, Patch, PatchType, Update
from kcm.protocols.messages.discovery import ServedResource, TablesChanged
from kcm.protocols.messages.lifecycle import Restarted
from kcm.protocols.messages.outcomes import (
    Conflict,
    Done,
    Forbidden,
    Invalid,
    NotFound,
    Outcome,
    ServerFailure,
    Throttled,
    Unknown,
)
from kcm.protocols.objects import Object, encode_object, labels_of, metadata, name_of
from kcm.protocols.resources import CUSTOM_RESOURCE_DEFINITIONS as CRDS
from kcm.protocols.resources import DEPLOYMENTS, Resource
from kcm.protocols.resources import STORAGE_VERSION_MIGRATIONS as MIGRATIONS
from kcm.protocols.times import format_time
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.tables.lister import UnreadableError

ALL = ("create", "delete", "get", "list", "patch", "update", "watch")
GAUGES = Resource(group="example.com", version="v1", plural="gauges", kind="Gauge")


def served(resource: Resource, verbs: tuple[str, ...] = ALL) -> ServedResource:
    return ServedResource(
        group=resource.group,
        version=resource.version,
        plural=resource.plural,
        kind=resource.kind,
        namespaced=resource.namespaced,
        verbs=verbs,
    )


def condition(type_: str, status: str = "True", **more: Any) -> Object:
    known = {"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": format_time(NOW)}
    return {**known, **more}


def migration(
    *conditions: Object, name: str = "m", resource: Resource = DEPLOYMENTS, age: float = 10.0, version: str = ""
) -> Object:
    status: Object = {"conditions": list(conditions)} if conditions else {}
    if version:
        status["resourceVersion"] = version
    return {
        "metadata": {"name": name, "creationTimestamp": format_time(NOW - age)},
        "spec": {"resource": {"group": resource.group, "resource": resource.plural}},
        "status": status,
    }


def deployment(name: str, version: int, namespace: str = "default") -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"u-{name}", "resourceVersion": str(version)}}


class Cluster:
    """Bench with migrations, a table of deployments, and the answers of the server."""

    def __init__(
        self,
        *migrations: Object,
        deployments: list[Object] | None = None,
        definition: Object | None = None,
        knows: tuple[ServedResource, ...] | None = (served(DEPLOYMENTS),),
        listed: str = "100",
        answer: Callable[[Command], Outcome | None] = lambda _command: None,
    ) -> None:
        tables: dict[Resource, list[Object]] = {MIGRATIONS: list(migrations)}
        if deployments is not None:
            tables[DEPLOYMENTS] = deployments
        self.bench = Bench(tables)
        self._definition, self._listed, self._answer = definition, listed, answer
        self.reconciler = StorageVersionMigrator(tables=self.bench.tables, clock=self.bench.clock, log=quiet_log())
        if knows is not None:
            self.reconciler.on_message(TablesChanged((), (), knows))

    def accept(self, command: Command) -> Outcome:
        given = self._answer(command)
        if given is not None:
            return given
        match command:
            case Get(CRDS.id):
                return NotFound() if self._definition is None else Done(encode_object(self._definition))
            case Patch(CRDS.id):
                return Done(b"{}")
            case Patch(DEPLOYMENTS.id, key):
                namespace, name = key.split("/")
                return Done(encode_object(deployment(name, 300, namespace)))
            case List():
                return Done(orjson.dumps({"metadata": {"resourceVersion": self._listed}, "items": []}))
        return self.bench.accept(command)

    def drive(self, steps: Reconciliation, raises: type[Exception] | None = None) -> Driven:
        return drive_steps(steps, self.accept, tables=self.bench.tables, raises=raises)

    def run(self, resource: Resource = DEPLOYMENTS, **more: Any) -> Driven:
        return self.drive(self.reconciler.run(GroupResource(resource.group, resource.plural)), **more)

    def checkpoint(self, **more: Any) -> Driven:
        return self.drive(self.reconciler.set_checkpoint("m"), **more)

    def migrate(self, **more: Any) -> Driven:
        return self.drive(self.reconciler.migrate("m"), **more)


def statuses(driven: Driven) -> list[Object]:
    """Return the status of each written migration."""
    writes = driven.of(Update)
    assert all(write.subresource == "status" for write in writes)
    return [orjson.loads(write.body)["status"] for write in writes]


def shown(status: Object) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["message"]) for each in status.get("conditions", [])]


def applied(driven: Driven) -> list[Object]:
    """Return the status of each apply to a CustomResourceDefinition."""
    patches = [patch for patch in driven.of(Patch) if patch.resource == CRDS.id]
    for patch in patches:
        assert (patch.patch_type, patch.field_manager, patch.force) == (PatchType.APPLY, RUNNER, True)
        assert patch.subresource == "status"
        assert orjson.loads(patch.body)["metadata"] == {"name": patch.key, "resourceVersion": "7"}
    return [orjson.loads(patch.body)["status"] for patch in patches]


def definition(*conditions: Object, generation: int = 1, stored: tuple[str, ...] = ("v1", "v2")) -> Object:
    return {
        "metadata": {"name": "gauges.example.com", "generation": generation, "resourceVersion": "7"},
        "spec": {"versions": [{"name": "v1", "storage": False}, {"name": "v2", "storage": True}]},
        "status": {"conditions": list(conditions), "storedVersions": list(stored)},
    }


STARTED = ("Running", "True", "The migration is running")
COMPLETED = ("Running", "False", "Migration completed")
RUNNING, SUCCEEDED, FAILED = condition("Running"), condition("Succeeded"), condition("Failed")
MIGRATING = {
    "type": "StorageMigrating",
    "status": "True",
    "observedGeneration": 1,
    "reason": "MigrationRunning",
    "message": "Migration m is running",
}


# --- the migration runner


def test_migration_without_a_definition_is_started() -> None:
    driven = Cluster(migration()).run()
    assert [shown(status) for status in statuses(driven)] == [[STARTED]]
    assert applied(driven) == []


def test_migration_of_a_custom_resource_is_started() -> None:
    driven = Cluster(migration(resource=GAUGES), definition=definition()).run(GAUGES)
    [status] = applied(driven)
    [written] = status["conditions"]
    assert written.pop("lastTransitionTime") == format_time(NOW)
    assert written == MIGRATING
    assert status["storedVersions"] == ["v1", "v2"], "a field that is not applied may be removed"
    assert [shown(status) for status in statuses(driven)] == [[STARTED]]


def test_running_migration_is_left_alone() -> None:
    assert Cluster(migration(RUNNING)).run().of(Update) == []


@pytest.mark.parametrize(
    ("ended", "generation", "reason", "message", "stored"),
    [
        (
            SUCCEEDED,
            1,
            "MigrationSucceeded",
            "The migration has succeeded and the stored versions have been updated",
            ["v2"],
        ),
        (
            SUCCEEDED,
            2,
            "MigrationSucceeded",
            "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ["v1", "v2"],
        ),
        (FAILED, 1, "MigrationFailed", "The migration has failed", ["v2"]),
        (FAILED, 2, "MigrationFailed", "The migration has failed", ["v1", "v2"]),
    ],
)
def test_ended_migration_of_a_custom_resource_is_completed(
    ended: Object, generation: int, reason: str, message: str, stored: list[str]
) -> None:
    found = definition(MIGRATING, generation=generation)
    driven = Cluster(migration(ended, RUNNING, resource=GAUGES), definition=found).run(GAUGES)
    [status] = applied(driven)
    [written] = status["conditions"]
    assert (written["status"], written["reason"], written["message"]) == ("False", reason, message)
    assert written["observedGeneration"] == generation
    assert status["storedVersions"] == stored
    assert [shown(status) for status in statuses(driven)] == [[(ended["type"], "True", "m"), COMPLETED]]


@pytest.mark.parametrize("generation", [2, 3])
def test_end_of_a_migration_is_recorded_once(generation: int) -> None:
    """The status of the migration could not be written. The definition had changed in the migration, or afterwards."""
    ended: Object = {**MIGRATING, "status": "False", "observedGeneration": 2, "message": "The migration has succeeded"}
    found = definition(ended, generation=generation)
    driven = Cluster(migration(SUCCEEDED, RUNNING, resource=GAUGES), definition=found).run(GAUGES)
    assert applied(driven) == []
    assert [shown(status) for status in statuses(driven)] == [[("Succeeded", "True", "m"), COMPLETED]]


def test_definition_that_another_migration_has_marked_is_left_alone() -> None:
    found = definition({**MIGRATING, "message": "Migration other is running"})
    driven = Cluster(migration(SUCCEEDED, RUNNING, resource=GAUGES), definition=found).run(GAUGES)
    assert applied(driven) == []
    assert len(statuses(driven)) == 1


def test_migration_of_a_definition_created_meanwhile_is_completed() -> None:
    driven = Cluster(migration(SUCCEEDED, RUNNING, resource=GAUGES), definition=definition()).run(GAUGES)
    [status] = applied(driven)
    assert status["storedVersions"] == ["v1", "v2"]


def test_completed_migration_is_left_alone() -> None:
    assert Cluster(migration(SUCCEEDED, condition("Running", "False"))).run().of(Update, Patch) == []


def test_oldest_migration_is_started_first() -> None:
    many = [migration(name="b", age=5.0), migration(name="a", age=5.0), migration(name="c", age=50.0)]
    driven = Cluster(*many).run()
    assert [write.key for write in driven.of(Update)] == ["c"]
    plan = runner_plan([many[0], many[1]], GroupResource("apps", "deployments"))
    assert name_of(plan.promoted or {}) == "a"


def test_one_migration_of_a_resource_runs_at_a_time() -> None:
    waiting, other = migration(name="a", age=50.0), migration(name="z", resource=GAUGES)
    assert Cluster(waiting, migration(RUNNING, name="b"), other).run().of(Update) == []
    ended = Cluster(waiting, migration(RUNNING, SUCCEEDED, name="b"), other).run()
    assert [write.key for write in ended.of(Update)] == ["b", "a"]


def test_changed_definition_is_read_again() -> None:
    refusals = [Conflict(), Conflict()]

    def answer(command: Command) -> Outcome | None:
        return refusals.pop() if isinstance(command, Patch) and refusals else None

    driven = Cluster(migration(resource=GAUGES), definition=definition(), answer=answer).run(GAUGES)
    assert len(applied(driven)) == len(driven.of(Get)) == 3
    assert len(statuses(driven)) == 1


def test_definition_that_always_changes_is_retried_later() -> None:
    def answer(command: Command) -> Outcome | None:
        return Conflict() if isinstance(command, Patch) else None

    driven = Cluster(migration(resource=GAUGES), definition=definition(), answer=answer).run(
        GAUGES, raises=CommandError
    )
    assert len(applied(driven)) == 5
    assert statuses(driven) == []


# --- checkpoints


@pytest.mark.parametrize(
    "given",
    [
        migration(),
        migration(condition("Running", "False")),
        migration(RUNNING, SUCCEEDED),
        migration(RUNNING, FAILED),
        migration(RUNNING, version="5"),
    ],
)
def test_migration_needs_no_checkpoint(given: Object) -> None:
    assert Cluster(given).checkpoint().commands == []


def test_checkpoint_of_a_namespaced_resource() -> None:
    driven = Cluster(migration(RUNNING)).checkpoint()
    [listing] = driven.of(List)
    assert (listing.namespace, listing.limit, listing.metadata_only) == ("@fake:svm_ns!", 1, True)
    [status] = statuses(driven)
    assert status == {"conditions": [RUNNING], "resourceVersion": "100"}


def test_checkpoint_of_a_cluster_scoped_resource() -> None:
    driven = Cluster(migration(RUNNING, resource=CRDS), knows=(served(CRDS),)).checkpoint()
    assert [listing.namespace for listing in driven.of(List)] == [""]


@pytest.mark.parametrize("verbs", [("list", "patch"), ("list", "update"), ("patch", "update"), ()])
def test_resource_without_a_verb_cannot_be_migrated(verbs: tuple[str, ...]) -> None:
    [status] = statuses(Cluster(migration(RUNNING), knows=(served(DEPLOYMENTS, verbs),)).checkpoint())
    message = 'resource "apps/v1, Resource=deployments" does not support discovery operations: [update patch list]'
    assert shown(status)[1:] == [("Failed", "True", message)]
    assert status["conditions"][1]["reason"] == "StorageVersionMigrationFailed"


@pytest.mark.parametrize("version", ["", "0", "01", "abc", "-1"])
def test_malformed_checkpoint_fails(version: str) -> None:
    [status] = statuses(Cluster(migration(RUNNING), listed=version).checkpoint())
    message = (
        "latest resourceVersion for apps/v1, Resource=deployments is not valid: "
        f"resource version is not well formed: {version}"
    )
    assert shown(status)[1:] == [("Failed", "True", message)]
    assert not is_well_formed(version)


def test_failed_list_is_retried() -> None:
    cluster = Cluster(migration(RUNNING), answer=lambda command: Forbidden() if isinstance(command, List) else None)
    assert statuses(cluster.checkpoint(raises=CommandError)) == []


def test_unknown_resource_fails_after_a_minute() -> None:
    assert Cluster(migration(RUNNING), knows=()).checkpoint(raises=Retry).commands == []
    [status] = statuses(Cluster(migration(RUNNING, age=61.0), knows=()).checkpoint())
    assert shown(status)[1:] == [("Failed", "True", "resource does not exist in discovery")]
    assert Cluster(migration(RUNNING), knows=None).checkpoint(raises=Retry).commands == []


# --- migration


def patches(driven: Driven) -> list[tuple[str, Object]]:
    found = driven.of(Patch)
    assert all(
        (patch.patch_type, patch.field_manager, patch.force) == (PatchType.APPLY, NAME, False) for patch in found
    )
    return [(patch.key, orjson.loads(patch.body)) for patch in found]


OBJECTS = [deployment("old", 90), deployment("new", 101), deployment("same", 100)]


def unhandled(error: str) -> tuple[str, str, str]:
    return ("Failed", "True", f"migration encountered unhandled error: {error}")


def test_objects_up_to_the_checkpoint_are_patched() -> None:
    driven = Cluster(migration(RUNNING, version="100"), deployments=OBJECTS).migrate()
    expected = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "default", "uid": f"u-{name}", "resourceVersion": version},
        }
        for name, version in (("old", "90"), ("same", "100"))
    ]
    assert [body for _, body in patches(driven)] == expected
    [status] = statuses(driven)
    assert shown(status)[1:] == [("Succeeded", "True", "")]
    assert status["conditions"][1]["reason"] == "StorageVersionMigrationSucceeded"
    assert "observedGeneration" not in status["conditions"][1]


@pytest.mark.parametrize(
    "given", [migration(RUNNING), migration(SUCCEEDED, version="5"), migration(FAILED, version="5")]
)
def test_migration_that_is_not_ready_or_has_ended_writes_nothing(given: Object) -> None:
    assert Cluster(given, deployments=OBJECTS).migrate().commands == []


def test_deleted_migration_needs_no_work() -> None:
    for driven in (Cluster().migrate(), Cluster().checkpoint()):
        assert driven.commands == []


def test_stale_table_delays_the_migration() -> None:
    driven = Cluster(migration(RUNNING, version="900"), deployments=OBJECTS).migrate(raises=Retry)
    assert driven.commands == []
    assert "listResourceVersion: 900" in str(driven.error)


def test_resource_without_a_table_fails_after_a_minute() -> None:
    assert Cluster(migration(RUNNING, version="5")).migrate(raises=Retry).commands == []
    [status] = statuses(Cluster(migration(RUNNING, version="5", age=61.0)).migrate())
    assert shown(status)[1:] == [unhandled("resource does not exist in GC: %!w(<nil>)")]


def test_unserved_resource_fails_after_a_minute() -> None:
    assert Cluster(migration(RUNNING, version="5"), knows=()).migrate(raises=Retry).commands == []
    [status] = statuses(Cluster(migration(RUNNING, version="5", age=61.0), knows=()).migrate())
    assert shown(status)[1:] == [unhandled("unable to obtain GVR from discovery")]


def test_malformed_status_fails() -> None:
    [status] = statuses(Cluster(migration(RUNNING, version="0x"), deployments=OBJECTS).migrate())
    text = "error comparing resource versions between GC and SVM resource: resource version is not well formed: 0x"
    assert shown(status)[1:] == [unhandled(text)]


def failing(outcome: Outcome) -> Callable[[Command], Outcome | None]:
    return lambda command: outcome if isinstance(command, Patch) else None


@pytest.mark.parametrize("outcome", [Invalid("is invalid"), Forbidden("is invalid"), NotFound("is invalid")])
def test_fatal_patch_error_fails_the_migration(outcome: Outcome) -> None:
    driven = Cluster(migration(RUNNING, version="100"), deployments=OBJECTS, answer=failing(outcome)).migrate()
    assert [shown(status)[1:] for status in statuses(driven)] == [[unhandled("is invalid")]]


def test_object_whose_patch_conflicts_counts_as_migrated() -> None:
    driven = Cluster(migration(RUNNING, version="100"), deployments=OBJECTS, answer=failing(Conflict("x"))).migrate()
    assert len(patches(driven)) == 2
    assert [shown(status)[1:] for status in statuses(driven)] == [[("Succeeded", "True", "")]]


@pytest.mark.parametrize("outcome", [Throttled("slow"), ServerFailure("down"), Unknown("reset")])
def test_retriable_patch_error_is_retried(outcome: Outcome) -> None:
    cluster = Cluster(migration(RUNNING, version="100"), deployments=OBJECTS, answer=failing(outcome))
    assert statuses(cluster.migrate(raises=CommandError)) == []
    assert is_retriable(outcome)


def test_unreadable_object_delays_the_migration() -> None:
    cluster = Cluster(migration(RUNNING, version="105"), deployments=OBJECTS)
    cluster.bench.spoil(DEPLOYMENTS, "default/old")
    assert cluster.migrate(raises=UnreadableError).commands == []


def test_condition_that_exists_is_kept() -> None:
    given = migration(condition("Failed", "False"))
    assert with_condition(given, "Failed", "R", "m", NOW) == given
    assert len(with_condition(given, "Succeeded", "R", "m", NOW)["status"]["conditions"]) == 2


def test_restart_is_ignored_and_other_messages_are_errors() -> None:
    reconciler = Cluster().reconciler
    assert reconciler.on_message(Restarted("x", 1)) == ()
    with pytest.raises(TypeError):
        reconciler.on_message("other")


def test_requirements_are_checked_at_the_start() -> None:
    (check,) = SPEC.start_checks
    gate = "--feature-gates=StorageVersionMigrator=true"
    assert list(check(read_options([]))) == []
    assert list(check(read_options([gate]))) == []
    found = list(check(read_options([gate, "--enable-garbage-collector=false"])))
    assert found == ["storage version migrator requires garbage collector"]
    assert not SPEC.enabled_if(read_options([]))
    assert SPEC.enabled_if(read_options([gate]))
    assert [queue.reports_as or queue.name for queue in SPEC.queues] == [NAME, CHECKPOINTS, CHECKPOINTS]


def test_objects_are_stored_in_the_new_version(cluster: SimulatedCluster) -> None:
    serve_migrations(cluster)
    options = read_options(["--feature-gates=StorageVersionMigrator=true"])
    cluster.manager(controllers=[garbage_collector.SPEC, SPEC], options=options)
    cluster.create(CRDS, gauges("v1"))
    for name in ("a", "b"):
        cluster.create(GAUGES, {"metadata": {"name": name, "labels": {"of": name}}})
    cluster.merge(CRDS, "gauges.example.com", {"spec": gauges("v2")["spec"]})
    cluster.create(GAUGES, {"metadata": {"name": "c"}})

    def found() -> Object:
        return cluster.get(CRDS, "gauges.example.com") or {}

    assert found()["status"]["storedVersions"] == ["v1", "v2"]
    before = {name_of(gauge): metadata(gauge)["resourceVersion"] for gauge in cluster.list(GAUGES)}
    cluster.create(
        MIGRATIONS, {"metadata": {"name": "m"}, "spec": {"resource": {"group": "example.com", "resource": "gauges"}}}
    )
    assert cluster.run_until(lambda: found()["status"]["storedVersions"] == ["v2"], within=300.0)
    cluster.run_for(1.0)
    conditions = (cluster.get(MIGRATIONS, "m") or {})["status"]["conditions"]
    assert [(each["type"], each["status"]) for each in conditions] == [("Running", "False"), ("Succeeded", "True")]
    after = {name_of(gauge): metadata(gauge)["resourceVersion"] for gauge in cluster.list(GAUGES)}
    assert [name for name in after if after[name] != before[name]] == ["a", "b"], "c is stored in v2 already"
    assert [labels_of(gauge) for gauge in cluster.list(GAUGES)][:2] == [{"of": "a"}, {"of": "b"}]
