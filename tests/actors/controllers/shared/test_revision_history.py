"""Adoption and release of ControllerRevisions, and name collisions of new ones."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.controllers.shared.controller_revisions import data_hash, new_revision, template_data
from kcm.actors.controllers.shared.revision_history import CreatedRevision, claim_revisions, create_unique, renumber
from kcm.actors.simulation.driver import Bench, drive_steps
from kcm.protocols.messages.commands import Command, Create, Get, Patch, Update
from kcm.protocols.messages.outcomes import AlreadyExists, Outcome
from kcm.protocols.objects import Object, make_key, name_of, owner_reference
from kcm.protocols.resources import CONTROLLER_REVISIONS, STATEFULSETS
from kcm.protocols.selectors import map_selector
from kcm.runtime.tables.lister import UnreadableError

WEB = {"app": "web"}
SET: Object = {
    "metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web"},
    "spec": {"template": {"metadata": {"labels": WEB}, "spec": {}}},
}
DATA = template_data(SET)
OTHER = template_data({"spec": {"template": {"spec": {"hostNetwork": True}}}})


def revision(name: str, *, data: Object = DATA, labels: Any = WEB, owned: bool = True) -> Object:
    references = [owner_reference(SET, api_version="apps/v1", kind="StatefulSet")] if owned else []
    meta = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": references}
    return {"metadata": meta, "data": data, "revision": 1}


def bench_of(*revisions: Object) -> Bench:
    return Bench({STATEFULSETS: [SET], CONTROLLER_REVISIONS: list(revisions)})


def kept_by(bench: Bench, *, releases: bool = True) -> Any:
    def steps() -> Any:
        lister, matches = bench.tables[CONTROLLER_REVISIONS], map_selector(WEB).matches
        claimed = yield from claim_revisions(
            lister, owner=SET, owner_resource=STATEFULSETS, matches=matches, releases=releases
        )
        found.extend(claimed)

    found: list[Object] = []
    driven = drive_steps(steps(), bench.accept, tables=bench.tables)
    return sorted(map(name_of, found)), [command.key for command in driven.of(Patch)]


def test_own_revisions_are_kept_orphans_adopted_and_others_released() -> None:
    bench = bench_of(
        revision("a"), revision("b", owned=False), revision("c", labels={}), revision("d", owned=False, labels={})
    )
    assert kept_by(bench) == (["a", "b"], ["default/b", "default/c"])


def test_revision_that_is_not_selected_may_keep_its_owner() -> None:
    """StatefulSets keep such a revision; the garbage collector deletes it with its owner."""
    bench = bench_of(revision("a"), revision("b", owned=False), revision("c", labels={}))
    assert kept_by(bench, releases=False) == (["a", "b"], ["default/b"])


def test_unreadable_revision_fails_the_sync() -> None:
    bench = bench_of(revision("a"))
    bench.spoil(CONTROLLER_REVISIONS, "default/b")
    with pytest.raises(UnreadableError):
        kept_by(bench)


def created(*existing: Object) -> tuple[CreatedRevision, list[type[Command]]]:
    bench = bench_of(*existing)
    there = {name_of(each) for each in existing}

    def answer(command: Command) -> Outcome:
        if isinstance(command, Create) and any(f'"{name}"'.encode() in command.body for name in there):
            return AlreadyExists("it is there")
        return bench.accept(command)

    def steps() -> Any:
        made = new_revision(SET, STATEFULSETS, labels=WEB, data=DATA, revision=1, collision_count=0)
        result.append((yield from create_unique(made, owner=SET, collision_count=0)))

    result: list[CreatedRevision] = []
    driven = drive_steps(steps(), answer, tables=bench.tables)
    return result[0], [type(command) for command in driven.commands]


def test_revision_is_created() -> None:
    made, commands = created()
    assert (name_of(made.revision), made.collision_count) == (f"web-{data_hash(DATA, 0)}", 0)
    assert commands == [Create]


def test_existing_revision_with_equal_data_is_used() -> None:
    made, commands = created(revision(f"web-{data_hash(DATA, 0)}"))
    assert (name_of(made.revision), made.collision_count) == (f"web-{data_hash(DATA, 0)}", 0)
    assert commands == [Create, Get]


def test_name_collision_creates_the_revision_under_the_next_name() -> None:
    made, commands = created(revision(f"web-{data_hash(DATA, 0)}", data=OTHER))
    assert (name_of(made.revision), made.collision_count) == (f"web-{data_hash(DATA, 1)}", 1)
    assert commands == [Create, Get, Create]


def test_new_number_is_written_once() -> None:
    bench = bench_of(revision("a"))

    def steps() -> Any:
        now = bench.tables[CONTROLLER_REVISIONS].get(make_key("default", "a"))
        again = yield from renumber(now, 4)
        yield from renumber(again, 4)

    driven = drive_steps(steps(), bench.accept, tables=bench.tables)
    assert [type(command) for command in driven.commands] == [Update]
