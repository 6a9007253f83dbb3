"""Decisions: what the engine remembers of each reconciliation."""

from __future__ import annotations

from typing import Any

import pytest

from kcm.actors.engine.controller import decisions
from kcm.actors.engine.controller.decisions import DecisionMemory, SyncDecision, add_sent, remember, sent
from kcm.actors.reconciliation import (
    Because,
    Reconciliation,
    RequeueAfter,
    Retry,
    Watch,
    create,
    itself,
    list_live,
    must,
    patch,
    together,
)
from kcm.actors.reconciliation.specs import ControllerSpec, Pass, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, drive
from kcm.protocols.messages.commands import Command, Create, Delete, DeleteCollection, Fetch, List, Update
from kcm.protocols.messages.outcomes import Done, Forbidden, NotFound
from kcm.protocols.objects import Key
from kcm.protocols.resources import CONFIGMAPS, NODES, PODS
from tests.support.objects import pod

NAME = "waiter-controller"


class Waiter:
    def __init__(self, _context: Any) -> None:
        self.failures = 0

    def reconcile(self, key: Key) -> Reconciliation:
        yield Because(f"looking at {key}")
        if key == "default/lost":
            yield from must(patch(CONFIGMAPS, "default/absent", {"data": {}}))
        body = {"metadata": {"namespace": "default", "name": f"of-{key.partition('/')[2]}"}, "data": {"name": "x"}}
        yield from together([create(CONFIGMAPS, body), create(CONFIGMAPS, body)])
        yield Because("waiting for a better moment")
        return RequeueAfter(60.0)

    def sweep(self) -> Reconciliation:
        yield from must(list_live(PODS, namespace="default"))
        raise Retry("later", after=30.0)

    def idles(self, _key: Key) -> Reconciliation:
        yield from ()
        return None

    async def looks(self, _key: Key) -> None:
        await Because("an async reason")

    def mistaken(self, _key: Key) -> Reconciliation:
        yield Because(3)  # type: ignore[arg-type]
        return None


def spec(reconcile: Any = Waiter.reconcile, *, passes: tuple[Pass, ...] = ()) -> ControllerSpec:
    queue = Queue("waiter", watches=(Watch(PODS, to=itself),), reconcile=reconcile)
    return ControllerSpec(name=NAME, queues=(queue,), build=Waiter, passes=passes)


def words(decision: SyncDecision) -> list[str]:
    return [str(command) for command in decision.commands]


def test_decision_has_reasons_commands_with_outcomes_and_the_delay(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, pod("a"))
    system = cluster.manager(controllers=[spec()])
    cluster.run_for(5.0)

    (decision,) = system.decisions(NAME).of("default/a")

    assert decision.reasons == ("looking at default/a", "waiting for a better moment")
    refused, done = sorted(words(decision))
    assert done == "create configmaps in default → Done"
    assert refused.startswith("create configmaps default/of-a → AlreadyExists: ")
    assert (decision.more, decision.error, decision.again) == (0, "", 60.0)
    assert decision.began < decision.ended
    (state,) = system.key_states(NAME, "default/a").values()
    assert state.due is not None
    assert 50.0 < state.due - cluster.clock.monotonic() <= 60.0
    assert system.key_states(NAME, "default/unknown") == {}


def test_decision_of_a_failure_has_the_refusal_the_error_and_the_backoff(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, pod("lost"))
    system = cluster.manager(controllers=[spec()])
    cluster.run_for(5.0)

    (decision,) = system.decisions(NAME).of("default/lost")

    assert decision.reasons == ("looking at default/lost",)
    assert words(decision)[0].startswith("patch configmaps default/absent → NotFound: ")
    assert decision.error.startswith("CommandError: ")
    assert decision.again is not None
    assert decision.again > 0.0
    assert system.key_states(NAME, "default/lost")["waiter"].failures > 1


def test_pass_is_remembered_without_a_key(cluster: SimulatedCluster) -> None:
    system = cluster.manager(controllers=[spec(passes=(Pass("sweep", every=3600.0, run=Waiter.sweep),))])
    cluster.run_for(5.0)

    (decision,) = system.decisions(NAME).of("")

    assert (decision.queue, words(decision), decision.again) == ("sweep", ["list pods in default → Done"], 30.0)
    assert decision.error.startswith("Retry: later")
    assert system.decisions(NAME).recent() == [decision]


def test_async_reconciler_awaits_a_reason(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, pod("a"))
    system = cluster.manager(controllers=[spec(Waiter.looks)])
    cluster.run_for(5.0)
    (decision,) = system.decisions(NAME).of("default/a")
    assert (decision.reasons, decision.error, decision.again) == (("an async reason",), "", None)


def test_reason_of_another_type_is_an_error_of_the_reconciler(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, pod("a"))
    system = cluster.manager(controllers=[spec(Waiter.mistaken)])
    cluster.run_for(5.0)
    (decision,) = system.decisions(NAME).of("default/a")
    assert decision.error.startswith("TypeError: Because takes a text, not 3")


def test_decisions_outlive_a_restart_of_the_controller(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, pod("a"))
    system = cluster.manager(controllers=[spec()])
    cluster.run_for(5.0)
    (before,) = system.decisions(NAME).of("default/a")
    system.disable(NAME)
    cluster.run_for(5.0)
    assert system.decisions(NAME).of("default/a") == [before]
    assert system.key_states(NAME, "default/a") == {}


def test_driver_of_tests_collects_reasons() -> None:
    bench = Bench({PODS: [pod("a")], CONFIGMAPS: []})
    driven = drive(Waiter(None), "default/a", bench.accept, tables=bench.tables)
    assert driven.reasons == ["looking at default/a", "waiting for a better moment"]


def decision_of(key: str, ended: float = 1.0) -> SyncDecision:
    return SyncDecision("waiter", key, 0.0, ended, (), (), 0, "", None)


def test_reconciliation_that_does_nothing_is_remembered_by_its_time(cluster: SimulatedCluster) -> None:
    cluster.create(PODS, pod("a"))
    system = cluster.manager(controllers=[spec(Waiter.idles)])
    cluster.run_for(5.0)
    (decision,) = system.decisions(NAME).of("default/a")
    assert (decision.reasons, decision.commands, decision.error) == ((), [], "")
    assert decision.ended <= cluster.clock.monotonic()
    assert system.decisions(NAME).recent() == []


def test_memory_is_bounded_and_forgets_the_oldest_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "MOST_KEYS", 3)
    memory = DecisionMemory()
    for number in (1, 2, 3, 1, 4, *range(5, 5 + decisions.RECENT)):
        decision = decision_of(f"d/{number}")
        remember(memory.latest_of("waiter"), decision.key, decision)
        memory.add_recent(decision)
        if number == 4:
            assert memory.of("d/1")
            assert not memory.of("d/2")
    assert memory.kept() == 3
    assert len(memory.recent()) == decisions.RECENT


def test_memory_of_many_commands_prefers_refusals() -> None:
    made = Create(PODS.id, "default", b'{"metadata":{"name":"a"}}')
    done, refused = Done(b'{"kind":"Pod","metadata":{"name":"a"}}'), Forbidden("exceeded quota: " + "x" * 1000)

    kept = add_sent((), [made] * 100, [done] * 50 + [refused] * 50)

    assert [outcome for _, _, outcome, _ in kept] == [Done] * decisions.MOST_COMMANDS + [
        Forbidden
    ] * decisions.MOST_REFUSALS
    first, *_, last = SyncDecision("pods", "default/a", 0.0, 1.0, (), kept).commands
    assert str(first) == "create pods in default → Done"
    assert last.text == "create pods default/a"
    assert len(last.message) == decisions.LONGEST


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (Update(PODS.id, "default/a", b"{}", "status"), "update pods default/a status"),
        (Delete(NODES.id, "n1"), "delete nodes n1"),
        (DeleteCollection(PODS.id, "default"), "delete all pods in default"),
        (List(PODS.id), "list pods"),
        (Create(NODES.id, "", b'{"metadata":{"name":"n1"}}'), "create nodes n1"),
        (Fetch("/metrics"), "get /metrics"),
    ],
)
def test_command_is_remembered_in_words(command: Command, words: str) -> None:
    kept = sent(command, NotFound("gone"))
    (shown,) = SyncDecision("pods", "default/a", 0.0, 1.0, (), (kept,)).commands
    assert str(shown) == f"{words} → NotFound: gone"
