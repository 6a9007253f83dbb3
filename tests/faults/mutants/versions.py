"""Mutants of the controllers of stored versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from kcm.actors.controllers.apimachinery import storageversiongc
from kcm.actors.controllers.apimachinery.storageversionmigrator import reconciler
from kcm.actors.controllers.apimachinery.storageversionmigrator.migrations import (
    GroupResource,
    RunnerPlan,
    has_condition,
    is_terminal,
    resource_of,
    started_status,
)
from kcm.actors.controllers.apimachinery.storageversionmigrator.reconciler import StorageVersionMigrator
from kcm.actors.reconciliation import Step, delete
from kcm.actors.simulation.campaign.domain_settings import MIGRATIONS_SETTING, STORAGE_VERSIONS_SETTING
from kcm.protocols.messages.commands import Command
from kcm.protocols.messages.outcomes import FAILURES, Done, Outcome, ServerFailure, Throttled, Unknown
from kcm.protocols.objects import Object
from kcm.protocols.resources import Resource
from kcm.runtime.tables.lister import Lister
from tests.faults.mutants.mutant import Mutant


def all_promoted() -> Any:
    """Migrations of a resource do not wait for one another."""

    def plan(migrations: Iterable[Object], resource: GroupResource) -> RunnerPlan:
        mine = [each for each in migrations if resource_of(each) == resource]
        ended = tuple(each for each in mine if has_condition(each, "Running") and is_terminal(each))
        waiting = [each for each in mine if not has_condition(each, "Running") and not is_terminal(each)]
        return RunnerPlan(ended, waiting[0] if waiting else None)

    return patch.object(reconciler, "runner_plan", plan)


@contextmanager
def nothing_rewritten() -> Iterator[None]:
    """A migration succeeds without a patch."""

    def _rewrite(_self: StorageVersionMigrator, _resource: Resource, _lister: Lister, _checkpoint: int) -> Step[None]:
        yield from ()

    with patch.object(StorageVersionMigrator, "_rewrite", _rewrite):
        yield


def failures_are_ignored() -> Any:
    """A patch whose outcome is unknown, or that the server failed to handle, counts as done."""
    right = reconciler.together

    def lax(commands: list[Command]) -> Step[list[Outcome]]:
        outcomes = yield from right(commands)
        return [Done(b"") if isinstance(each, Unknown | ServerFailure | Throttled) else each for each in outcomes]

    return patch.object(reconciler, "together", lax)


@contextmanager
def generation_is_ignored() -> Iterator[None]:
    """Old versions are removed from a definition that changed during the migration."""
    right = reconciler.ended_status

    def lax(definition: Object, migration: str, *, succeeded: bool, now: float) -> Object | None:
        status = right(definition, migration, succeeded=succeeded, now=now)
        current = [version["name"] for version in definition["spec"]["versions"] if version["storage"]]
        return None if status is None else {**status, "storedVersions": current}

    with patch.object(reconciler, "ended_status", lax):
        yield


def ends_are_recorded_again() -> Any:
    """The end of a migration is recorded again in its definition if the migration's status could not be written."""
    right = reconciler.ended_status

    def lax(definition: Object, migration: str, *, succeeded: bool, now: float) -> Object | None:
        conditions = (definition.get("status") or {}).get("conditions") or ()
        marked = started_status(definition, migration, now)["conditions"][0]
        # The generation that the last end has recorded is kept.
        running = [
            {**marked, "observedGeneration": condition.get("observedGeneration")}
            if condition["type"] == marked["type"]
            else condition
            for condition in conditions
        ]
        status = {**(definition.get("status") or {}), "conditions": running}
        return right({**definition, "status": status}, migration, succeeded=succeeded, now=now)

    return patch.object(reconciler, "ended_status", lax)


def resources_must_be_discovered() -> Any:
    """A migration fails at once if discovery does not contain its resource yet."""
    return patch.object(reconciler, "GRACE", 0.0)


@contextmanager
def failed_reads_count_as_missing() -> Iterator[None]:
    """A Lease that cannot be read counts as missing, as upstream."""
    must = storageversiongc.must
    with patch.object(storageversiongc, "must", lambda command, but=(): must(command, but=FAILURES if but else ())):
        yield


def deleted_by_name() -> Any:
    """A StorageVersion is deleted without preconditions, as upstream."""

    def lax(resource: Resource, which: Object, **_options: Any) -> Any:
        return delete(resource, which["metadata"]["name"], depends_on=())

    return patch.object(storageversiongc, "delete", lax)


VERSIONS = (
    Mutant(
        name="migrations of a resource run together",
        source="kubernetes v1.36 migrationrunner.go, getSVMsForResource: one migration runs at a time",
        mutation=all_promoted,
        setting=MIGRATIONS_SETTING,
    ),
    Mutant(
        name="a migration succeeds without a patch",
        source="kubernetes v1.36 storageversionmigrator.go, runMigration",
        mutation=nothing_rewritten,
        setting=MIGRATIONS_SETTING,
    ),
    Mutant(
        name="a patch without a response counts as done",
        source="kubernetes v1.36 storageversionmigrator.go, isRetriableError",
        mutation=failures_are_ignored,
        setting=MIGRATIONS_SETTING,
    ),
    Mutant(
        name="stored versions are removed from a changed definition",
        source="kubernetes v1.36 migrationrunner.go, finishCRDMigration: the generation is compared",
        mutation=generation_is_ignored,
        setting=MIGRATIONS_SETTING,
    ),
    Mutant(
        name="the end of a migration is recorded twice",
        source="kubernetes v1.36 migrationrunner.go, cleanupAdmission: repeated if the status cannot be written",
        mutation=ends_are_recorded_again,
        setting=MIGRATIONS_SETTING,
    ),
    Mutant(
        name="a migration does not wait for discovery",
        source="kubernetes v1.36 resourceversion.go, sync: a new migration waits for a minute",
        mutation=resources_must_be_discovered,
        setting=MIGRATIONS_SETTING,
    ),
    Mutant(
        name="a Lease that cannot be read counts as missing",
        source="kubernetes v1.36 gc_controller.go, syncStorageVersion: any error counts",
        mutation=failed_reads_count_as_missing,
        setting=STORAGE_VERSIONS_SETTING,
    ),
    Mutant(
        name="StorageVersions are deleted by name",
        source="kubernetes v1.36 gc_controller.go, updateOrDeleteStorageVersion: the deletion has no preconditions",
        mutation=deleted_by_name,
        setting=STORAGE_VERSIONS_SETTING,
    ),
)
