"""The controller actor: start, waits, and robustness against its reconciler and its peers."""

from __future__ import annotations

import contextlib
import json
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson
import pytest
from structlog.testing import LogCapture
from structlog.typing import FilteringBoundLogger

from kcm.actors.engine.controller import Controller, ControllerSettings, QueueSettings
from kcm.actors.engine.controller.keys import LISTED_AT_ONCE
from kcm.actors.reconciliation import Enqueue, Reconciliation, RequeueAfter, Watch, delete, itself, must, patch, record
from kcm.protocols.messages.commands import Delete, Submit
from kcm.protocols.messages.events import Record
from kcm.protocols.messages.lifecycle import (
    Attach,
    Attached,
    Describe,
    Drain,
    Drained,
    Pause,
    Ping,
    Pong,
    Restarted,
    Resume,
)
from kcm.protocols.messages.outcomes import Done, Outcome, Refused, ServerFailure, Settled
from kcm.protocols.messages.watches import EventType, Subscribe, Synced, WatchEvent, WatchEvents
from kcm.protocols.objects import Key
from kcm.protocols.resources import Resource
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import ActorSpec
from kcm.runtime.system.vitals import Vitals
from kcm.runtime.tables.table import Table
from kcm.runtime.tables.tables import Tables
from tests.support.scripted import Probe

CONFIGMAPS = Resource(version="v1", plural="configmaps", kind="ConfigMap")
ME = "controller:greeter"
INFORMER = f"informer:{CONFIGMAPS.id}"
PEERS = ("dispatcher", INFORMER, "event-recorder", "controller-manager")


def configmap(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "d", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}}


class Greeter:
    """Reconciler that calls a function of the test, and records the keys."""

    def __init__(self, act: Callable[[Key], Any]) -> None:
        self._act = act
        self.seen: list[Key] = []

    def reconcile(self, key: Key) -> Reconciliation:
        self.seen.append(key)
        result: Reconciliation = self._act(key)
        return result


def greets(key: Key) -> Reconciliation:
    yield patch(CONFIGMAPS, key, {"data": {"greeting": "hello"}})
    return None


def looks(_key: Key) -> Reconciliation:
    yield from ()
    return None


class ControllerRig:
    """Controller under test; the test plays its informer, dispatcher and manager."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        act: Callable[[Key], Any] = greets,
        *,
        watches: tuple[Watch[Key], ...] = (Watch(CONFIGMAPS, to=itself),),
        **settings: Any,
    ) -> None:
        self.world = World(log=log)
        self.system = self.world.system()
        self.kept: dict[str, list[Any]] = {name: [] for name in PEERS}
        self.peers = {name: ActorSpec(name=name, build=partial(Probe, kept=kept)) for name, kept in self.kept.items()}
        for spec in self.peers.values():
            self.system.spawn(spec)
        self.table = Table(CONFIGMAPS)
        self.writer = self.table.claim()
        self.greeter = Greeter(act)
        self.vitals = Vitals()

        def build(_tables: Tables) -> Greeter:
            return self.greeter

        self.spec = ActorSpec(
            name=ME,
            build=partial(
                Controller,
                settings=ControllerSettings(
                    name="greeter",
                    client="greeter",
                    component="greeter",
                    queues=(QueueSettings(name="greeter", watches=watches, **settings),),
                ),
                tables={CONFIGMAPS.id: self.table},
                build=build,
                vitals=self.vitals,
                seed=1,
            ),
        )
        self.system.spawn(self.spec)
        self.settle()

    def settle(self, seconds: float = 0.0) -> None:
        self.world.run_for(seconds)

    def listed(self, *names: str, version: int = 10) -> None:
        self.writer.replace(
            [self.table.make_entry(obj, orjson.dumps(obj)) for obj in (configmap(n, version) for n in names)], version
        )
        self.writer.touch(self.world.clock.monotonic())

    def tell(self, *messages: Any, then: float = 0.0) -> None:
        for message in messages:
            self.system.tell(ME, message)
        self.settle(then)

    def begin(self, *names: str) -> None:
        """Start the controller with these objects in its table, and without earlier writes."""
        self.listed(*names)
        self.tell(Synced(CONFIGMAPS.id), Attached(self.system.incarnation(ME), {}, []))

    @property
    def submits(self) -> list[Submit]:
        return [message for message in self.kept["dispatcher"] if isinstance(message, Submit)]

    def answer(self, submit: Submit, *outcomes: Outcome) -> None:
        self.tell(*(Settled(submit.ticket, index, outcome) for index, outcome in enumerate(outcomes)))

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = orjson.loads(self.world.ask(self.system, ME, Describe()).facts)
        return found


def event(name: str, version: int = 11) -> WatchEvents:
    obj = configmap(name, version)
    added = WatchEvent(
        EventType.ADDED, CONFIGMAPS.id, f"d/{name}", f"uid-{name}", str(version), json.dumps(obj).encode()
    )
    return WatchEvents((added,), (1,))


DONE = Done(b'{"metadata":{"namespace":"d","name":"a","uid":"uid-a","resourceVersion":"12"}}')


# Start.


def test_controller_begins_once_it_is_attached_and_its_tables_are_synced(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    assert rig.kept["dispatcher"] == [Attach(ME, 1)]
    assert rig.kept[INFORMER] == [Subscribe(ME)]
    rig.tell(event("a"), Attached(1, {}, []))
    assert rig.greeter.seen == []
    rig.listed("a", "b")
    rig.tell(Synced(CONFIGMAPS.id))
    assert rig.greeter.seen == ["d/a", "d/b"]


def test_controller_with_many_objects_handles_messages_before_it_begins(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, looks)
    names = [f"c{number}" for number in range(3 * LISTED_AT_ONCE)]
    rig.listed(*names)
    for message in (Synced(CONFIGMAPS.id), Attached(1, {}, [])):
        rig.system.tell(ME, message)
    assert not rig.facts()["ready"]
    assert rig.greeter.seen == []
    rig.settle()
    assert rig.facts()["ready"]
    assert len(rig.greeter.seen) == 3 * LISTED_AT_ONCE


def test_informer_that_is_new_while_the_controller_begins_is_listed_again(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, looks)
    names = [f"c{number:04}" for number in range(LISTED_AT_ONCE + 1)]
    rig.listed(*names)
    for message in (Synced(CONFIGMAPS.id), Attached(1, {}, [])):
        rig.system.tell(ME, message)
    assert not rig.facts()["ready"]
    rig.listed("added", *names)
    rig.tell(Synced(CONFIGMAPS.id))
    assert set(rig.greeter.seen) == {"d/added", *(f"d/{name}" for name in names)}


def test_changes_within_the_delay_of_a_watch_are_reconciled_together(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, looks, watches=(Watch(CONFIGMAPS, to=itself, delay=1.0),))
    rig.begin()
    rig.tell(event("a"), then=0.5)
    rig.tell(event("a", 12), then=0.4)
    assert rig.greeter.seen == []
    rig.settle(0.2)
    assert rig.greeter.seen == ["d/a"]
    rig.settle(2.0)
    assert rig.greeter.seen == ["d/a"]


def test_controller_waits_until_its_table_contains_its_predecessors_writes(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.listed("a", version=10)
    rig.tell(Synced(CONFIGMAPS.id), Attached(1, {CONFIGMAPS.id: 20}, []), then=5.0)
    assert rig.greeter.seen == []
    rig.writer.advance(20)
    rig.settle(1.0)
    assert rig.greeter.seen == ["d/a"]


def test_controller_does_not_wait_for_versions_lost_by_a_restored_backup(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.listed("a", version=100)
    rig.tell(Synced(CONFIGMAPS.id), Attached(1, {CONFIGMAPS.id: 120}, []))
    rig.listed("a", version=7)
    rig.settle(1.0)
    assert rig.greeter.seen == ["d/a"]


def test_answer_to_an_earlier_incarnation_is_ignored(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.listed("a")
    rig.tell(Synced(CONFIGMAPS.id), Attached(7, {}, []), then=1.0)
    assert rig.greeter.seen == []


# Messages.


def test_describe_between_two_events_delays_no_key(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.begin()
    rig.system.tell(ME, event("a"))
    rig.facts()
    rig.settle()
    assert rig.greeter.seen == ["d/a"]


def test_ping_between_two_events_delays_no_key(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.begin()
    rig.tell(event("a"), Ping(1))
    assert rig.greeter.seen == ["d/a"]


def test_pings_are_answered_during_a_long_queue(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, looks)
    names = [f"c{number}" for number in range(1000)]
    rig.listed(*names)
    rig.world.hang(rig.system, "dispatcher")
    rig.system.tell(ME, Synced(CONFIGMAPS.id))
    rig.system.tell(ME, Attached(1, {}, []))
    rig.system.tell(ME, Ping(1))
    while not any(isinstance(message, Pong) for message in rig.kept["controller-manager"]):
        assert rig.world.step()
    assert 0 < len(rig.greeter.seen) < 500
    rig.settle()
    assert len(rig.greeter.seen) == 1000, "and nothing is forgotten"


def test_duplicate_or_unknown_outcome_is_ignored(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.begin("a")
    (submit,) = rig.submits
    rig.answer(submit, DONE)
    rig.answer(submit, Refused("again"))
    rig.tell(Settled(4711, 0, DONE))
    facts = rig.facts()
    assert (facts["reconciled"], facts["failed"], facts["in_work"]) == (1, 0, 0)


# Faulty reconcilers.


def raises_at_once(_key: Key) -> Reconciliation:
    raise RuntimeError("no generator")


def answers_nothing(_key: Key) -> Any:
    return None


def yields_a_riddle(_key: Key) -> Iterator[Any]:
    yield object()


def yields_what_cannot_be_told(key: Key) -> Iterator[Any]:
    yield patch(CONFIGMAPS, key, {})
    yield [object()]


def yields_an_event_among_commands(key: Key) -> Iterator[Any]:
    yield [delete(CONFIGMAPS, key), record(CONFIGMAPS, configmap("bad", 1), "Normal", "Reason", "text")]


def forgets_from(key: Key) -> Iterator[Any]:
    yield must(delete(CONFIGMAPS, key))


def yields_text(_key: Key) -> Iterator[Any]:
    yield "hello"


def returns_a_number(_key: Key) -> Any:
    yield from ()
    return 7


def comes_back_never(_key: Key) -> Any:
    yield from ()
    return RequeueAfter(float("nan"))


def comes_back_before(_key: Key) -> Any:
    yield from ()
    return RequeueAfter(-5)


def comes_back_in_words(_key: Key) -> Any:
    yield from ()
    return RequeueAfter("5")  # type: ignore[arg-type]


def enqueues_before(key: Key) -> Any:
    yield Enqueue("greeter", key, after=-1.0)


def deletes_in_words(key: Key) -> Any:
    yield [delete(CONFIGMAPS, key, uid="u"), Delete(CONFIGMAPS.id, key, grace_seconds="5")]  # type: ignore[arg-type]


def records_a_number(_key: Key) -> Any:
    yield Record("v1", "ConfigMap", "d", "bad", "u", "1", "Normal", "Found", 5)  # type: ignore[arg-type]


NONSENSE = "TypeError: a reconciliation yields a command, a list of commands or a record, not "
RETURNS = "TypeError: a reconciliation returns RequeueAfter(seconds) or None, not "


@pytest.mark.parametrize(
    "act, error",
    [
        (raises_at_once, "RuntimeError: no generator"),
        (answers_nothing, "TypeError: reconcile() of Greeter is no generator: it needs a yield, and returned None"),
        (yields_a_riddle, f"{NONSENSE}<object object"),
        (yields_what_cannot_be_told, f"{NONSENSE}[<object object"),
        (yields_an_event_among_commands, f"{NONSENSE}[Delete("),
        (forgets_from, f"{NONSENSE}<generator object must"),
        (yields_text, f"{NONSENSE}'hello'"),
        (returns_a_number, f"{RETURNS}7"),
        (comes_back_never, "ValueError: RequeueAfter takes a number of seconds, 0 or more, not nan"),
        (comes_back_before, "ValueError: RequeueAfter takes a number of seconds, 0 or more, not -5"),
        (comes_back_in_words, "TypeError: RequeueAfter takes a number of seconds, not '5'"),
        (deletes_in_words, "TypeError: grace_seconds of Delete: expected `int | null`, got `str`"),
        (records_a_number, "TypeError: message of Record: expected `str`, got `int`"),
        (enqueues_before, "ValueError: Enqueue: after takes a number of seconds, 0 or more, not -1.0"),
    ],
)
def test_invalid_yield_for_one_object_does_not_affect_others(
    log: FilteringBoundLogger, logs: LogCapture, act: Callable[[Key], Any], error: str
) -> None:
    rig = ControllerRig(log, lambda key: act(key) if key == "d/bad" else greets(key))
    rig.begin("bad", "good")
    for submit in rig.submits:
        rig.answer(submit, DONE)
    assert rig.system.is_alive(ME)
    facts = rig.facts()
    assert facts["reconciled"] == 1
    assert facts["failed"] >= 1
    assert facts["in_work"] == 0
    looked = len(rig.greeter.seen)
    rig.settle(1.0)
    assert rig.greeter.seen[looked:].count("d/bad") >= 1, "and it is tried again"
    assert next(e["error"][: len(error)] for e in logs.entries if e.get("key") == "d/bad") == error


def test_invalid_yield_raises_at_the_yield(log: FilteringBoundLogger, logs: LogCapture) -> None:
    rig = ControllerRig(log, yields_text)
    rig.begin("bad")
    rig.settle(1.0)
    first, *others = [e["exc_info"] for e in logs.entries if e.get("key") == "d/bad"]
    assert "yields_text" in [frame.name for frame in traceback.extract_tb(first.__traceback__)]
    assert others == [None] * len(others), "the same trace is not shown again for each try"
    assert others


def test_caught_error_of_an_invalid_yield_still_fails_the_key(log: FilteringBoundLogger) -> None:
    def catches(_key: Key) -> Iterator[Any]:
        while True:
            with contextlib.suppress(TypeError):
                yield "hello"

    rig = ControllerRig(log, catches)
    rig.begin("bad")
    facts = rig.facts()
    assert (facts["failed"], facts["in_work"]) == (1, 0)


def test_watch_that_returns_a_text_enqueues_nothing(log: FilteringBoundLogger, logs: LogCapture) -> None:
    rig = ControllerRig(log, watches=(Watch(CONFIGMAPS, to=lambda change, _: change.key),))
    rig.begin("a")
    assert rig.greeter.seen == []
    (entry,) = [e for e in logs.entries if e["event"] == "malformed object skipped"]
    assert entry["error"] == "TypeError: `to` returns keys, as a list, and not the text 'd/a'"


def test_object_for_which_a_watch_raises_is_skipped(log: FilteringBoundLogger, logs: LogCapture) -> None:
    def picky(change: Any, _tables: Tables) -> list[Key]:
        if change.key == "d/bad":
            raise KeyError("spec")
        return [change.key]

    rig = ControllerRig(log, watches=(Watch(CONFIGMAPS, to=picky),))
    rig.begin("bad", "good")
    assert rig.greeter.seen == ["d/good"]
    assert any(e["event"] == "malformed object skipped" and e["key"] == "d/bad" for e in logs.entries)


# Peers that are replaced during a sync.


def two_at_once(key: Key) -> Reconciliation:
    yield [patch(CONFIGMAPS, key, {"data": {"n": str(number)}}) for number in range(2)]
    return None


def new_dispatcher(rig: ControllerRig) -> None:
    rig.system.spawn(rig.peers["dispatcher"])
    rig.tell(Restarted("dispatcher", rig.system.incarnation("dispatcher")))


def test_unsent_part_of_a_batch_is_lost_with_the_dispatcher(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, two_at_once)
    rig.begin("a")
    (submit,) = rig.submits
    new_dispatcher(rig)
    assert rig.kept["dispatcher"][-1] == Attach(ME, 1)
    rig.tell(Attached(1, {}, [[submit.ticket, 0]]))
    assert rig.facts()["in_work"] == 1, "its first command is on its way"
    rig.tell(Settled(submit.ticket, 0, DONE))
    assert rig.facts()["in_work"] == 0


def test_commands_to_a_new_dispatcher_are_not_dropped(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.begin("a")
    new_dispatcher(rig)
    rig.tell(event("b"))
    first, second = rig.submits
    rig.tell(Attached(1, {}, [[first.ticket, 0]]))
    assert rig.facts()["in_work"] == 2
    rig.answer(second, DONE)
    assert rig.facts()["in_work"] == 1


def test_restarted_peer_is_detected_without_a_message(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.begin()
    rig.system.spawn(rig.peers[INFORMER])
    rig.system.spawn(rig.peers["dispatcher"])
    rig.settle(130.0)
    assert rig.kept[INFORMER] == [Subscribe(ME)] * 2
    assert rig.kept["dispatcher"] == [Attach(ME, 1)] * 2


def test_restarted_informer_enqueues_all_keys_again(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, looks)
    rig.begin("a", "b")
    rig.system.spawn(rig.peers[INFORMER])
    rig.tell(Restarted(INFORMER, 2), Restarted(INFORMER, 2))
    assert rig.kept[INFORMER] == [Subscribe(ME)] * 2, "told twice, it subscribes once"
    rig.tell(Synced(CONFIGMAPS.id))
    assert rig.greeter.seen == ["d/a", "d/b"] * 2


def test_incarnation_replaced_during_a_message_sends_nothing_more(
    log: FilteringBoundLogger,
) -> None:
    rig = ControllerRig(log)

    def hangs(key: Key) -> Reconciliation:
        rig.system.spawn(rig.spec)  # the incarnation is replaced meanwhile
        rig.vitals.say(ME, "said by the successor")
        return greets(key)

    rig.greeter._act = hangs
    rig.listed("a")
    rig.system.tell(ME, Attached(1, {}, []))
    rig.system.tell(ME, Synced(CONFIGMAPS.id))
    while rig.system.incarnation(ME) == 1:
        assert rig.world.step()
    assert rig.vitals.of(ME, str) == "said by the successor"
    assert rig.submits == []


# Paused, draining, stale.


def test_paused_controller_keeps_its_queue_and_finishes_its_syncs(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, two_at_once)
    rig.begin("a")
    rig.tell(Pause("greeter"), event("b"), event("b"))
    rig.answer(rig.submits[0], DONE, DONE)
    assert rig.greeter.seen == ["d/a"]
    facts = rig.facts()
    assert (facts["reconciled"], facts["queued"], facts["paused"]) == (1, 1, True)
    rig.tell(Resume("greeter"))
    assert rig.greeter.seen == ["d/a", "d/b"]


def test_draining_controller_starts_nothing_and_sends_drained_once(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.begin("a")
    rig.tell(Drain(), event("b"), then=5.0)
    assert not any(isinstance(message, Drained) for message in rig.kept["controller-manager"])
    rig.answer(rig.submits[0], DONE)
    rig.tell(event("c"), event("d"), then=130.0)
    assert [m for m in rig.kept["controller-manager"] if isinstance(m, Drained)] == [Drained(ME)]
    assert rig.greeter.seen == ["d/a"]


def test_repeated_drain_is_answered_again(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log)
    rig.tell(Drain())
    rig.tell(Drain())
    assert rig.kept["controller-manager"] == [Drained(ME)] * 2, "it may be another manager that asks"


def deletes(key: Key) -> Reconciliation:
    yield delete(CONFIGMAPS, key)
    return None


def test_nothing_is_deleted_because_of_a_stale_table(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, deletes)
    rig.begin()
    rig.settle(301.0)
    rig.tell(event("a"))
    assert rig.submits == []
    rig.writer.touch(rig.world.clock.monotonic())
    rig.settle(11.0)
    assert len(rig.submits) == 1


# Long runs.


def test_key_is_requeued_at_the_earliest_requested_time(log: FilteringBoundLogger) -> None:
    delays = iter([600.0, 5.0, 600.0])

    def later(_key: Key) -> Reconciliation:
        yield from ()
        return RequeueAfter(next(delays))

    rig = ControllerRig(log, later)
    rig.begin("a")
    rig.tell(event("a"))
    rig.settle(5.5)
    assert len(rig.greeter.seen) == 3


def test_retry_that_becomes_due_while_a_message_is_handled_waits_for_its_alarm(log: FilteringBoundLogger) -> None:
    def writes(key: Key) -> Reconciliation:
        yield from must(patch(CONFIGMAPS, key, {"data": {}}))
        return None

    rig = ControllerRig(log, writes)
    rig.begin("a")
    clock, asked = rig.world.clock, list[float]()

    def take_longer_than_the_delay(*_ending: object) -> None:
        clock.elapsed += 0.02

    rig.system.endings.append(take_longer_than_the_delay)
    clock.call_at = lambda _who, when, _what: asked.append(when)  # type: ignore[method-assign]
    rig.answer(rig.submits[0], ServerFailure("broken"))
    assert len(rig.greeter.seen) == 1
    assert min(asked) < clock.elapsed


def test_busy_controller_does_not_set_the_same_alarm_repeatedly(log: FilteringBoundLogger) -> None:
    rig = ControllerRig(log, looks)
    rig.begin()
    asked: list[float] = []
    call_at = rig.world.clock.call_at

    def counting(who: Any, when: float, what: Callable[[], None]) -> None:
        asked.append(when)
        call_at(who, when, what)

    rig.world.clock.call_at = counting  # type: ignore[method-assign]
    for number in range(200):
        rig.tell(event(f"c{number}"), then=0.01)
    assert len(rig.greeter.seen) == 200
    assert len(asked) < 10
