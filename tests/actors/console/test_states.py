from __future__ import annotations

from typing import Any

import msgspec

from kcm.actors.console.states import StatesTopic, with_instants
from tests.runtime.serving.conftest import STARTED, FixedClock

NOW = STARTED + 120


class State(msgspec.Struct):
    controllers: list[dict[str, Any]]
    actors: list[dict[str, Any]]
    leading: bool = True


def test_durations_become_instants_that_stay_equal_while_nothing_happens() -> None:
    first = with_instants({"upSeconds": 10.2, "queues": [{"sinceSuccessSeconds": 3.1, "dueInSeconds": 4.0}]}, NOW)
    second = with_instants({"upSeconds": 11.2, "queues": [{"sinceSuccessSeconds": 4.1, "dueInSeconds": 3.0}]}, NOW + 1)
    assert first == second
    assert first == {"upAt": NOW - 10, "queues": [{"sinceSuccessAt": NOW - 3, "dueInAt": NOW + 4}]}


def test_activity_without_duration_is_absent() -> None:
    assert with_instants({"busySeconds": 0.2, "longestWaitingSeconds": 0.0, "upSeconds": None}, NOW) == {
        "busyAt": None,
        "longestWaitingAt": None,
        "upAt": None,
    }
    assert with_instants({"busySeconds": 7.0, "seconds": 2.0}, NOW) == {"busyAt": NOW - 7, "at": NOW - 2}


def test_rows_are_named_after_controllers_and_actors() -> None:
    state = State([{"name": "x-controller", "state": "Running"}], [{"name": "x", "mailbox": 3}])
    assert StatesTopic(lambda: state, clock=FixedClock()).sample() == {
        "system": {"leading": True},
        "controller/x-controller": {"name": "x-controller", "state": "Running"},
        "actor/x": {"name": "x", "mailbox": 3},
    }
