"""Exceptions of a controller's code are violations unless its trial permits them, and every report contains them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from time import sleep
from typing import Any

import pytest
from msgspec.structs import replace

from kcm.actors.reconciliation import Change, Enqueue, Reconciliation, Watch, itself
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Index, Pass, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.failure_reports import must_hold, recorded, report
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.invariants.common.raised_exceptions import RaisedExceptions
from kcm.actors.simulation.trials.actions import create
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.objects import Key, Object
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.tables.tables import Tables
from tests.support.census import CONFIGMAPS

NAME = "reader"


def bad(*_: Any) -> Any:
    raise KeyError("no such word")


def nothing(*_: Any) -> Any:
    return None


class Reader:
    """Reconciler that calls a function for each ConfigMap."""

    def __init__(self, context: ControllerContext, *, look: Callable[[], object], hear: Callable[[], object]) -> None:
        self._maps, self._look, self._hear = context.tables[CONFIGMAPS], look, hear

    def reconcile(self, key: Key) -> Reconciliation:
        if self._maps.get(key) is not None:
            self._look()
        yield from ()
        return None

    def on_message(self, _message: Any) -> Iterable[Enqueue]:
        self._hear()
        return ()


def passing(look: Callable[[], object]) -> Reconciliation:
    look()
    yield from ()
    return None


def reading(
    *,
    look: Callable[[], object] = nothing,
    hear: Callable[[], object] = nothing,
    to: Callable[[Change, Tables], Iterable[Key]] = itself,
    values_of: Callable[[Object], Iterable[str]] | None = None,
    every_so_often: Callable[[], object] | None = None,
    build: Callable[[], object] = nothing,
) -> ControllerSpec:
    def make(context: ControllerContext) -> Reader:
        build()
        return Reader(context, look=look, hear=hear)

    passes = ()
    if every_so_often is not None:
        passes = (Pass("often", every=lambda _options: 60.0, run=lambda _reader: passing(every_so_often)),)
    return ControllerSpec(
        name=NAME,
        build=make,
        queues=(Queue(watches=(Watch(CONFIGMAPS, to=to),)),),
        indexes=() if values_of is None else (Index(CONFIGMAPS, "words", values_of),),
        passes=passes,
    )


def setting(spec: ControllerSpec, **trial: Any) -> Setting:
    return Setting(
        controllers=(spec,),
        trials=(Trial(controller=NAME, **trial),),
        actions=lambda _: (create(3.0, CONFIGMAPS, {"metadata": {"name": "a"}, "data": {}}),),
        elections=lambda _: 0,
    )


RAISING = {
    "a reconciliation": (reading(look=bad), "reconciliation of reader default/a"),
    "a pass": (reading(every_so_often=bad), "reconciliation of often"),
    "a `to` function": (reading(to=bad), "`to` of the watch of configmaps default/a"),
    "an index": (reading(values_of=bad), "making an entry default/a"),
    "a message function": (reading(hear=bad), "the actor"),
    "what builds the reconciler": (reading(build=bad), "the actor"),
}


@pytest.mark.parametrize(("spec", "where"), RAISING.values(), ids=RAISING.keys())
def test_raised_exception_is_a_violation_with_traceback(spec: ControllerSpec, where: str) -> None:
    # The dispatcher vanishes, so that its restart sends the controller a message.
    vanished = parse_faults("actor-vanished 5..9 most=1 actor=dispatcher process=manager")
    failed = check(0, vanished, setting=setting(spec))
    violation = failed.violations[0]
    assert violation.invariant == RaisedExceptions.name
    assert f"{where}: KeyError: 'no such word' (test_raised_exceptions.py:" in violation.text
    text = report(recorded(failed, setting=setting(spec)))
    assert "Traceback (most recent call last):" in text
    assert 'raise KeyError("no such word")' in text


def test_permitted_exception_is_still_reported() -> None:
    spec = reading(look=bad)
    assert check(0, (), setting=setting(spec, raises=(LookupError,))).violations == []
    never = setting(spec, raises=(LookupError,), unsettled=lambda _cluster: ("it is never",))
    failed = recorded(check(0, (), setting=replace(never, settled=5.0)), setting=never)
    assert [violation.invariant for violation in failed.violations] == ["the system settles after the faults"]
    assert "times: controller:reader, reconciliation of reader default/a: KeyError: 'no such word'" in report(failed)
    assert "Traceback" in report(failed)


def test_failed_commands_are_counted_in_reports_but_not_violations() -> None:
    refused = parse_faults("command-refused 0..4 resource=nodes")
    never = Setting(actions=lambda _: (), settled=5.0, unsettled=lambda _cluster: ("it is never",))
    failed = check(0, refused, setting=never)
    assert [violation.text for violation in failed.violations] == ["after 5 s: it is never"]
    assert any("times: controller:hollow-nodes-controller, " in line for line in failed.mishaps)
    assert not any("Traceback" in line for line in failed.mishaps)


def test_a_test_that_must_hold_shows_what_was_raised() -> None:
    with pytest.raises(AssertionError, match=r"(?s)seed 3 of workloads violates:.*no such word.*Traceback.*in bad"):
        must_hold(3, setting=setting(reading(look=bad)))


# Controllers that wait for the real world.


def connect() -> None:
    with socket.socket() as listening:
        listening.connect(("127.0.0.1", 9))


def send() -> None:
    first, other = socket.socketpair()
    with first, other:
        first.sendall(b"x")


def wait() -> None:
    threading.Event().wait(1.0)


def start_thread() -> None:
    threading.Thread(target=nothing).start()


WAITING = {
    "time.sleep": (lambda: time.sleep(0.001), "time.sleep in a simulated actor: .* instead return RequeueAfter"),
    "sleep, imported by name": (lambda: sleep(0.001), "time.sleep in a simulated actor"),
    "a connection": (connect, "socket.socket.connect in a simulated actor: .* yield commands for the API server"),
    "a socket that is open": (send, "socket.socket.sendall in a simulated actor"),
    "a name server": (lambda: socket.getaddrinfo("localhost", 80), "socket.getaddrinfo in a simulated actor"),
    "a program": (lambda: subprocess.run(["true"], check=True), "subprocess.Popen in a simulated actor"),
    "a shell": (lambda: os.system("true"), "os.system in a simulated actor"),
    "another thread": (wait, "threading.Condition.wait in a simulated actor: .* yield Enqueue"),
    "a thread that begins": (start_thread, "threading.Condition.wait in a simulated actor"),
}


@pytest.mark.parametrize(("look", "text"), WAITING.values(), ids=WAITING.keys())
def test_a_reconciler_that_waits_for_the_world_outside_raises(look: Callable[[], object], text: str) -> None:
    violation = check(0, (), setting=setting(reading(look=look))).violations[0]
    assert violation.text.startswith("controller:reader, reconciliation of reader default/a: BlockingCallError: ")
    assert re.search(text, violation.text)


def test_blocking_outside_of_actors_is_permitted() -> None:
    cluster = SimulatedCluster(log=quiet_log())
    cluster.run_for(1.0)
    sleep(0.0)
    connected, other = socket.socketpair()
    with connected, other:
        connected.sendall(b"x")
        assert other.recv(1) == b"x"
    assert threading.Event().wait(0.001) is False
    assert subprocess.run(["true"], check=True).returncode == 0
