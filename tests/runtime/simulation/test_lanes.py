"""Handlers that wait in virtual time while they handle a message."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from kcm.protocols.messages.lifecycle import Pause, Resume
from kcm.runtime.simulation.world import World
from kcm.runtime.system.actor import Actor, ActorSpec
from kcm.runtime.system.actor_system import ActorSystem


class WaitingActor(Actor):
    """Waits for the seconds in the name of a Pause, and records what it does."""

    def __init__(self, context: Any, *, world: World, done: list[tuple[float, str]]) -> None:
        super().__init__(context)
        self._world, self._done = world, done

    def receive(self, message: Any) -> None:
        if isinstance(message, Pause):
            self._done.append((self.clock.monotonic(), "waits"))
            try:
                self._world.wait(float(message.controller))
            finally:
                self._done.append((self.clock.monotonic(), "is back"))
        else:
            self._done.append((self.clock.monotonic(), message.controller))


@pytest.fixture
def world(log: FilteringBoundLogger) -> World:
    made = World(log=log)
    made.handlers_may_wait = True
    return made


def system(world: World, *names: str) -> tuple[ActorSystem, dict[str, list[tuple[float, str]]]]:
    made = world.system()
    done: dict[str, list[tuple[float, str]]] = {name: [] for name in names}
    for name in names:
        made.spawn(ActorSpec(name=name, build=partial(WaitingActor, world=world, done=done[name])))
    return made, done


def test_waiting_handler_does_not_block_others(world: World) -> None:
    actors, done = system(world, "one", "two")
    actors.tell("one", Pause("10"))
    world.run_for(1.0)
    actors.tell("one", Resume("later"))
    actors.tell("two", Resume("meanwhile"))
    world.run_for(5.0)
    assert done == {"one": [(0.0, "waits")], "two": [(1.0, "meanwhile")]}
    world.run_for(5.0)
    assert done["one"] == [(0.0, "waits"), (10.0, "is back"), (10.0, "later")]
    world.close()


def test_several_handlers_may_wait_repeatedly(world: World) -> None:
    actors, done = system(world, "one", "two")
    for seconds in ("5", "2"):
        actors.tell("one", Pause(seconds))
    actors.tell("two", Pause("6"))
    world.run_for(20.0)
    assert done["one"] == [(0.0, "waits"), (5.0, "is back"), (5.0, "waits"), (7.0, "is back")]
    assert done["two"] == [(0.0, "waits"), (6.0, "is back")]
    world.close()


def test_endless_wait_ends_with_its_process_or_its_world(world: World) -> None:
    before = set(threading.enumerate())
    process = world.process("p")
    crashing = ActorSystem(clock=process.clock, log=world.log, spawner=process)
    done: list[tuple[float, str]] = []
    crashing.spawn(ActorSpec(name="one", build=partial(WaitingActor, world=world, done=done)))
    staying, others = system(world, "two")
    crashing.tell("one", Pause("0"))
    staying.tell("two", Pause("0"))
    world.run_for(100.0)
    process.crash()
    assert done == [(0.0, "waits"), (100.0, "is back")], "it unwinds"
    assert others["two"] == [(0.0, "waits")]
    world.close()
    assert others["two"] == [(0.0, "waits"), (100.0, "is back")]
    for thread in set(threading.enumerate()) - before:
        thread.join(10.0)
        assert not thread.is_alive()


def test_wait_outside_of_a_handler_is_an_error(world: World) -> None:
    with pytest.raises(RuntimeError, match="only a handler may wait"):
        world.wait(1.0)
    world.handlers_may_wait = False
    actors, done = system(world, "one")
    actors.tell("one", Pause("1"))
    world.run_for(1.0)
    assert not actors.is_alive("one"), "the error is its own"
    assert [what for _, what in done["one"]] == ["waits", "is back"]
