"""Actors in one thread, on virtual time, in an order that depends on the seed."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.messages.lifecycle import ActorFailed, Pause, Wake
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults
from kcm.runtime.simulation.trace import Trace
from kcm.runtime.simulation.world import HotLoopError, World
from kcm.runtime.system.actor import Actor, ActorSpec, Context
from kcm.runtime.system.actor_system import ActorSystem


class Receiver(Actor):
    """Records the text and the time of each message."""

    def __init__(self, context: Context, *, received: list[tuple[float, str]], to: str = "") -> None:
        super().__init__(context)
        self._received, self._to = received, to

    def receive(self, message: Any) -> Any:
        match message:
            case Pause("fail"):
                raise ValueError("failure requested")
            case Pause(word) if word.startswith("wake at "):
                self.wake_at(float(word.removeprefix("wake at ")))
            case Pause(word):
                self._keep(word)
            case ActorFailed(name=name, error=error):
                self._keep(f"{name}: {error}")
            case Wake():
                self._keep("wake")
        if self._to:
            self.tell(self._to, message)
        return message

    def stopped(self) -> None:
        self._keep("stopped")

    def _keep(self, word: str) -> None:
        self._received.append((self.clock.monotonic(), word))


class SimulatedSystem:
    """A world with one system of receivers. Its supervisor is `boss`."""

    def __init__(self, log: FilteringBoundLogger, *, seed: int = 0, faults: str = "") -> None:
        self.world = World(log=log, seed=seed)
        self.world.trace = Trace()
        if faults:
            self.world.injector = Injector(parse_faults(faults), seed=seed, clock=self.world.clock)
        self.process = self.world.process("manager")
        self.system = ActorSystem(clock=self.process.clock, log=log, spawner=self.process, supervisor="boss")
        self.received: dict[str, list[tuple[float, str]]] = {}

    def spawn(self, *names: str, to: str = "") -> None:
        for name in names:
            received = self.received[name] = []
            self.system.spawn(ActorSpec(name=name, build=partial(Receiver, received=received, to=to)))

    def words(self, name: str) -> list[str]:
        return [word for _, word in self.received[name]]


@pytest.fixture
def simulated(log: FilteringBoundLogger) -> SimulatedSystem:
    simulated = SimulatedSystem(log)
    simulated.spawn("boss", "a", "b")
    return simulated


def test_nothing_happens_before_the_world_runs(simulated: SimulatedSystem) -> None:
    simulated.system.tell("a", Pause("x"))
    assert simulated.words("a") == []
    simulated.world.run_for(0.0)
    assert simulated.words("a") == ["x"]


def test_messages_of_one_sender_stay_in_order_while_actors_take_turns(log: FilteringBoundLogger) -> None:
    orders = set()
    for seed in range(10):
        simulated = SimulatedSystem(log, seed=seed)
        simulated.spawn("boss", "a", "b")
        for word in "123":
            simulated.system.tell("a", Pause(word))
            simulated.system.tell("b", Pause(word))
        simulated.world.run_for(0.0)
        assert simulated.words("a") == simulated.words("b") == ["1", "2", "3"]
        assert simulated.world.trace is not None
        orders.add(simulated.world.trace.digest)
    assert len(orders) > 1, "seeds decide whose turn it is"


def test_time_jumps_from_alarm_to_alarm(simulated: SimulatedSystem) -> None:
    simulated.system.tell("a", Pause("wake at 3600"))
    simulated.world.run_for(7200.0)
    assert simulated.received["a"] == [(3600.0, "wake")]
    assert simulated.world.clock.monotonic() == 7200.0


def test_run_until_stops_as_soon_as_the_condition_is_met(simulated: SimulatedSystem) -> None:
    simulated.world.clock.call_after(5.0, lambda: simulated.system.tell("a", Pause("x")))
    assert simulated.world.run_until(lambda: "x" in simulated.words("a"), within=60.0)
    assert simulated.world.clock.monotonic() == 5.0
    assert not simulated.world.run_until(lambda: False, within=1.0)
    assert simulated.world.clock.monotonic() == 6.0


def test_a_handler_that_raises_ends_its_actor_and_the_supervisor_is_notified(simulated: SimulatedSystem) -> None:
    for word in ("x", "fail", "y"):
        simulated.system.tell("a", Pause(word))
    simulated.system.tell("b", Pause("z"))
    simulated.world.run_for(1.0)
    assert simulated.words("a") == ["x", "stopped"]
    assert simulated.words("b") == ["z"]
    assert simulated.words("boss") == ["a: ValueError: failure requested"]


def test_a_killed_actor_leaves_its_mailbox_unread(simulated: SimulatedSystem) -> None:
    simulated.system.tell("a", Pause("x"))
    simulated.world.kill(simulated.system, "a")
    simulated.world.run_for(1.0)
    assert simulated.words("a") == []
    assert simulated.words("boss") == ["a: killed"]


def test_hung_actor_handles_its_messages_after_the_hang(simulated: SimulatedSystem) -> None:
    simulated.world.hang(simulated.system, "a", 10.0)
    simulated.system.tell("a", Pause("x"))
    simulated.world.run_for(9.0)
    assert simulated.words("a") == []
    simulated.world.run_for(2.0)
    assert simulated.received["a"] == [(10.0, "x")]


def test_actor_replaced_before_its_start_neither_starts_nor_stops(simulated: SimulatedSystem) -> None:
    started: list[int] = []

    class Starting(Actor):
        def started(self) -> None:
            started.append(self.context.incarnation)

        def stopped(self) -> None:
            started.append(-self.context.incarnation)

    spec = ActorSpec(name="c", build=Starting)
    simulated.system.spawn(spec)
    simulated.world.hang(simulated.system, "c", 1.0)
    simulated.system.spawn(spec)
    simulated.world.run_for(2.0)
    assert started == [2]
    assert simulated.system.stragglers("c") == []


def test_pause_does_not_end_a_longer_hang(simulated: SimulatedSystem) -> None:
    simulated.world.hang(simulated.system, "a")
    simulated.world.hang(simulated.system, "b", 10.0)
    simulated.world.pause(simulated.process, 5.0)
    for name in ("a", "b"):
        simulated.system.tell(name, Pause("x"))
    simulated.world.run_for(60.0)
    assert simulated.received["a"] == []
    assert simulated.received["b"] == [(10.0, "x")]


def test_a_crashed_process_loses_all_its_actors_and_their_alarms(simulated: SimulatedSystem) -> None:
    simulated.system.tell("a", Pause("wake at 5"))
    simulated.world.run_for(1.0)
    simulated.system.tell("b", Pause("x"))
    simulated.process.crash()
    simulated.world.run_for(10.0)
    assert all(received == [] for received in simulated.received.values()), "no actor gets to clean up"


def test_actor_stopped_without_timeout_first_handles_its_mailbox(simulated: SimulatedSystem) -> None:
    simulated.system.tell("a", Pause("x"))
    simulated.system.stop("a", timeout=None)
    simulated.world.run_for(0.0)
    assert simulated.words("a") == ["x", "stopped"]


def test_ask_returns_the_result_or_times_out(simulated: SimulatedSystem) -> None:
    assert simulated.world.ask(simulated.system, "a", Pause("x")) == Pause("x")
    with pytest.raises(TimeoutError, match="nobody"):
        simulated.world.ask(simulated.system, "nobody", Pause("x"))
    simulated.world.hang(simulated.system, "b")
    with pytest.raises(TimeoutError, match="b did not respond"):
        simulated.world.ask(simulated.system, "b", Pause("x"))


def test_endless_exchange_of_messages_is_an_error(log: FilteringBoundLogger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcm.runtime.simulation.world.MOST_STEPS_AT_ONCE", 100)
    simulated = SimulatedSystem(log)
    simulated.spawn("boss")
    simulated.spawn("a", to="b")
    simulated.spawn("b", to="a")
    simulated.system.tell("a", Pause("x"))
    with pytest.raises(HotLoopError, match="without advance of virtual time"):
        simulated.world.run_for(1.0)


@pytest.mark.parametrize(
    ("faults", "kind", "words", "reports"),
    [
        ("actor-crashed actor=a most=1", FaultKind.ACTOR_CRASHED, ["stopped"], ["a: InjectedError: crashed"]),
        ("actor-vanished actor=a most=1", FaultKind.ACTOR_VANISHED, [], []),
        ("actor-hung actor=a most=1 seconds=0", FaultKind.ACTOR_HUNG, [], []),
    ],
)
def test_faults_of_actors_strike_before_a_message_is_handled(
    faults: str, kind: FaultKind, words: list[str], reports: list[str], log: FilteringBoundLogger
) -> None:
    simulated = SimulatedSystem(log, faults=faults)
    simulated.spawn("boss", "a")
    simulated.system.tell("a", Pause("x"))
    simulated.world.run_for(60.0)
    assert simulated.words("a") == words
    assert simulated.words("boss") == reports
    assert simulated.world.injector is not None
    assert simulated.world.injector.struck == {kind: 1}


def test_delayed_messages_of_one_sender_stay_in_order(log: FilteringBoundLogger) -> None:
    simulated = SimulatedSystem(log, faults="message-delayed actor=a seconds=5 most=1")
    simulated.spawn("boss", "a")
    for word in "123":
        simulated.system.tell("a", Pause(word), sender="boss")
    simulated.world.run_for(60.0)
    assert simulated.words("a") == ["1", "2", "3"]
    (moment,) = {when for when, _ in simulated.received["a"]}
    assert 0.0 < moment <= 5.0
