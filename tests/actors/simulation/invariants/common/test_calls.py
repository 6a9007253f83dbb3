"""Detection of writes without a change, live reads without a cause, and too many writes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.common.calls import (
    CallsInProportion,
    LiveReadsHaveACause,
    NoUnchangedWrites,
    pods_to_change,
)
from kcm.actors.simulation.invariants.observer import (
    Admitted,
    Committed,
    Handled,
    OutcomeReceived,
    ProcessStarted,
    Submitted,
)
from kcm.actors.simulation.invariants.ownership import OwnershipIndex, Owns, declared_controller, replicas_of
from kcm.protocols.messages.commands import Command, Get, List, Submit
from kcm.protocols.messages.outcomes import Done, NotFound, Outcome
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import CRONJOBS, JOBS, PODS, STATEFULSETS
from kcm.runtime.apiserver.storage.store import ADDED, DELETED, MODIFIED, StoreChange
from kcm.runtime.client.api import Request, Response
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.tables.table import Table
from tests.support.objects import owned_by, pod

CHANGED = StoreChange(MODIFIED, "configmaps", "d/c", 8, b'{"metadata": {}, "data": {}}', b'{"metadata": {}}')


@pytest.mark.parametrize(
    ("method", "body", "changes", "violated"),
    [
        ("PUT", b"{}", [], True),
        ("PUT", b"{}", [CHANGED], False),
        ("PATCH", b'{"metadata":{"resourceVersion":"7"}}', [], True),
        ("PATCH", b'{"metadata":{"resourceVersion":"7"}}', [CHANGED], False),
        # The write may repeat an earlier one whose response was lost.
        ("PATCH", b'{"metadata":{"uid":"u"}}', [], False),
    ],
)
def test_write_without_a_change_is_a_violation(method: str, body: bytes, changes: Any, violated: bool) -> None:
    failures: list[str] = []
    request = Request(method=method, path="/api/v1/namespaces/d/configmaps/c", body=body)
    handled = Handled("manager", "me", request, Response(status=200, body=b"{}"), changes)
    NoUnchangedWrites().observe(handled, failures.append)
    assert bool(failures) == violated


SENDER = "controller:cronjob-controller"
LOOK = Get(CRONJOBS.id, "default/c")
NOTHING: Any = None


class Looks:
    """Controller that may read CronJobs and Jobs live, or Jobs and pods once. texts: violations."""

    def __init__(self, owns: Owns = Owns(CRONJOBS, JOBS, read_each_version=True)) -> None:  # noqa: B008
        self.tables = {each.id: Table(each) for each in (CRONJOBS, JOBS, PODS)}
        self.invariant = LiveReadsHaveACause(OwnershipIndex([declared_controller("cronjob-controller", owns=[owns])]))
        self.texts: list[str] = []
        self.incarnation = 0
        self.restart()

    def restart(self) -> None:
        self.incarnation += 1
        self.admit()

    def admit(self, *lost: Command) -> None:
        self.invariant.observe(Admitted("manager", SENDER, self.incarnation, lost), self.texts.append)

    def exist(self, version: int, *, shown: bool = True) -> None:
        change = StoreChange(MODIFIED if version else DELETED, "cronjobs.batch", "default/c", version, b"{}", b"")
        self.invariant.observe(Committed([change]), self.texts.append)
        if shown:
            meta = {"name": "c", "namespace": "default", "uid": "1", "resourceVersion": str(version)}
            table = self.tables[CRONJOBS.id]
            table.claim().put(table.make_entry({"metadata": meta}, encode_object({"metadata": meta})))

    def look(self, command: Command = LOOK, outcome: Outcome = Done(b"{}")) -> bool:  # noqa: B008
        """Read an object live, and report whether this is a violation."""
        before = len(self.texts)
        system: Any = SimpleNamespace(tables=self.tables)
        submit = Submit(SENDER, self.incarnation, "client", 1, (command,))
        self.invariant.observe(Submitted("manager", system, submit), self.texts.append)
        self.invariant.observe(OutcomeReceived("manager", system, SENDER, command, outcome), self.texts.append)
        return len(self.texts) > before


def test_each_version_may_be_read_once() -> None:
    looks = Looks()
    looks.exist(8)
    assert [looks.look(), looks.look()] == [False, True]
    looks.exist(9)
    assert [looks.look(), looks.look()] == [False, True]


def test_reads_are_permitted_while_the_table_is_late() -> None:
    looks = Looks()
    looks.exist(8)
    looks.exist(9, shown=False)
    assert [looks.look(), looks.look()] == [False, False]
    looks.exist(9)
    assert [looks.look(), looks.look()] == [False, True]


def test_reads_of_an_undeclared_resource_are_a_violation() -> None:
    looks = Looks()
    assert looks.look(Get(PODS.id, "default/p"))
    assert looks.look(List(JOBS.id, "default"))


@pytest.mark.parametrize("happens", ["a failure", "a new incarnation", "a new process", "a lost look", "nothing"])
def test_repeated_read_of_a_version_needs_a_cause(happens: str) -> None:
    looks = Looks()
    looks.exist(8)
    looks.look(LOOK, NotFound("no") if happens == "a failure" else Done(b"{}"))
    if happens == "a new incarnation":
        looks.restart()
    elif happens == "a new process":
        looks.invariant.observe(ProcessStarted("manager", NOTHING), looks.texts.append)
    elif happens in ("a lost look", "nothing"):
        looks.admit(*[LOOK] * (happens == "a lost look"))
    assert looks.look() is (happens == "nothing")


def test_incarnation_may_read_each_owner_and_its_dependents_once() -> None:
    looks = Looks(Owns(JOBS, PODS, read_once=True))
    job, pods = Get(JOBS.id, "default/j"), List(PODS.id, "default", label_selector="a=b")
    assert [looks.look(each) for each in (job, pods, job, pods)] == [False, False, True, True]
    assert not looks.look(Get(JOBS.id, "default/other"))
    looks.restart()
    assert [looks.look(each) for each in (job, pods)] == [False, False]


def test_owner_missing_in_the_table_may_be_read() -> None:
    looks = Looks(Owns(JOBS, PODS, read_once=True))
    job = Get(JOBS.id, "default/j")
    stray = pod("p", version=8, owner=owned_by("1", kind="Job", name="j"))
    table = looks.tables[PODS.id]
    table.claim().put(table.make_entry(stray, encode_object(stray)))
    assert [looks.look(job) for _ in range(3)] == [False] * 3


SETS = Owns(STATEFULSETS, PODS, pods=replicas_of)


def a_set(replicas: int, **spec: Any) -> Object:
    return {"spec": {"replicas": replicas, "template": {"spec": {}}, **spec}}


@pytest.mark.parametrize(
    ("after", "most"),
    [
        (a_set(3), 0),
        (a_set(5), 2),
        (a_set(1), 2 * SETS.removal),
        (a_set(3, template={"spec": {"hostNetwork": True}}), 3 * SETS.removal + 3),
        (a_set(3, ordinals={"start": 2}), 3 * SETS.removal + 3),  # different names mean different pods
    ],
)
def test_how_many_writes_of_pods_a_change_is_a_reason_for(after: Object, most: int) -> None:
    assert pods_to_change(a_set(3), after, SETS) == most


@pytest.mark.parametrize(
    ("faults", "patience", "writes", "objections"),
    [
        ("", 2, 2, 0),  # statuses of a new set: at the beginning and the end of its rollout
        ("", 2, 3, 1),
        ("clock-jumped 5..18 seconds=-5 process=manager*", 0, 3, 1),
        # A false alarm, seed 62026112500576 of stateful.
        ("clock-jumped 5..18 seconds=-5 process=manager*", 2, 10, 0),
        ("clock-jumped 5..18 seconds=-5 process=manager*", 2, 27, 1),
    ],
)
def test_clock_jump_justifies_statuses_of_workloads_with_min_ready_seconds(
    faults: str, patience: int, writes: int, objections: int
) -> None:
    cluster: Any = SimpleNamespace(injector=SimpleNamespace(faults=parse_faults(faults)))
    invariant = CallsInProportion(cluster, OwnershipIndex([declared_controller("sets", client="sets", owns=[SETS])]))
    meta = {"name": "s", "namespace": "d", "uid": "u", "generation": 1}
    whole = encode_object({"metadata": meta, **a_set(3, minReadySeconds=patience)})
    texts: list[str] = []
    for change in (
        StoreChange(ADDED, "statefulsets.apps", "d/s", 1, whole, b""),
        CHANGED,
    ):  # a later entry names the writer
        invariant.observe(Committed([change]), texts.append)
    for version in range(2, 2 + writes):
        changes = [StoreChange(MODIFIED, "statefulsets.apps", "d/s", version, whole, whole)]
        request = Request(method="PUT", path="/apis/apps/v1/namespaces/d/statefulsets/s/status")
        invariant.observe(Handled("manager", "sets", request, Response(status=200), changes), texts.append)
    assert len(texts) == objections
