"""Statements without their `yield from` or `yield`."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.app import controller_plans
from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.reconciliation import (
    Reconciliation,
    Step,
    Watch,
    call,
    delete,
    itself,
    must,
    record,
    steps,
    together,
)
from kcm.actors.reconciliation.forgotten_steps import ATTEMPTS, _definitions, forgotten_steps, warn_of_forgotten_steps
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Pass, Queue
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.driver import Bench, StillClock, drive
from kcm.actors.simulation.trials.identity.key import key_file
from kcm.protocols.resources import PODS
from kcm.runtime.logs.standard_log import quiet_log
from kcm.runtime.metrics.registry import Metrics

KEY = "default/web"


def helper() -> Step[None]:
    must(delete(PODS, KEY))  # 1
    yield from together([])


def forgetful_pass(_sweeper: Any) -> Step[None]:
    together([])  # 9
    yield from together([])


class Kept:
    def step(self) -> Step[None]:
        yield from helper()


class Forgetful:
    def __init__(self) -> None:
        self._kept = Kept()

    def reconcile(self, key: str) -> Reconciliation:
        must(delete(PODS, key))  # 2
        steps.must(delete(PODS, key))  # 3
        record(PODS, {}, "Normal", "Gone", "It is gone")  # 4
        self._own_step()  # 5
        self._kept.step()  # 6
        self.of_the_class()  # 7
        yield from must(delete(PODS, key))
        return None

    def _own_step(self) -> Step[None]:
        delete(PODS, KEY)  # 8
        call(len, KEY)  # 10
        yield from together([])

    @staticmethod
    def of_the_class() -> Step[None]:
        yield from together([])


class Careful:
    """Reconciler without forgotten steps, but with similar code."""

    def __init__(self) -> None:
        self._made: list[Any] = []

    @property
    def dangerous(self) -> Any:
        raise AssertionError("properties are not run")

    def reconcile(self, key: str) -> Reconciliation:
        self._made.append(delete(PODS, key))
        print(must)
        self.dangerous.step()
        step = must(delete(PODS, key))
        yield from step
        yield record(PODS, {}, "Normal", "Gone", "It is gone")
        return None


def lines_marked(numbers: Iterable[int]) -> list[int]:
    source = Path(__file__).read_text().splitlines()
    return sorted(at + 1 for number in numbers for at, line in enumerate(source) if line.endswith(f"# {number}"))


def test_each_statement_that_starts_nothing_is_found_with_its_line() -> None:
    found = forgotten_steps(Forgetful())
    assert [step.line for step in found] == lines_marked([*range(1, 9), 10])
    assert {step.file for step in found} == {__file__}
    assert {step.missing for step in found if step.line in lines_marked([4, 8])} == {"yield"}
    assert {step.missing for step in found if step.line in lines_marked([1, 2, 3, 5, 6, 7, 10])} == {"yield from"}


def test_used_or_started_step_is_not_reported() -> None:
    assert forgotten_steps(Careful()) == []


def test_functions_of_a_queue_are_read_too() -> None:
    assert [step.line for step in forgotten_steps(object(), [helper])] == lines_marked([1])


@pytest.mark.parametrize("failures", [1, ATTEMPTS])
def test_system_error_of_the_parser_is_retried_and_stops_no_controller(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    # Source: https://github.com/python/cpython/issues/106905, a SystemError of ast.parse.
    parse, failed = ast.parse, []

    def confused(source: str) -> ast.AST:
        if len(failed) < failures:
            failed.append(source)
            raise SystemError("AST constructor recursion depth mismatch (before=45, after=41)")
        return parse(source)

    expected = forgotten_steps(Forgetful())
    _definitions.cache_clear()
    with monkeypatch.context() as while_confused:
        while_confused.setattr(ast, "parse", confused)
        found = forgotten_steps(Forgetful())
    _definitions.cache_clear()
    assert len(failed) == failures
    assert found == (expected if failures < ATTEMPTS else [])


def test_a_function_without_source_is_left_out() -> None:
    names: dict[str, Any] = {}
    exec("def nothing(): yield", names)
    linecache.checkcache()
    assert forgotten_steps(object(), [names["nothing"], lambda: (yield)]) == []


def test_a_warning_names_file_line_and_what_to_write() -> None:
    with pytest.warns(RuntimeWarning) as warned:
        warn_of_forgotten_steps(Forgetful())
    first = min(warned, key=lambda warning: warning.lineno)
    assert (first.filename, first.lineno) == (__file__, lines_marked([1])[0])
    text = "'must(delete(PODS, KEY))' does nothing: write `yield from must(delete(PODS, KEY))`"
    assert str(first.message) == text


def test_running_a_reconciler_by_hand_warns() -> None:
    class AnotherForgetful:
        def reconcile(self, key: str) -> Reconciliation:
            together([delete(PODS, key)])
            yield from together([])
            return None

    bench = Bench({PODS: []})
    with pytest.warns(RuntimeWarning, match="does nothing"):
        drive(AnotherForgetful(), KEY, bench.accept, tables=bench.tables)


def test_a_controller_that_starts_warns(cluster: SimulatedCluster) -> None:
    class Sweeper:
        def sweep(self) -> Reconciliation:
            yield from together([])
            return None

    spec = ControllerSpec(
        name="sweeper",
        reads=(PODS,),
        queues=(Queue(watches=(Watch(PODS, to=itself),), reconcile=lambda _sweeper, _key: helper()),),
        passes=(Pass("forgetful", every=lambda _options: 60.0, run=forgetful_pass),),
        build=lambda _context: Sweeper(),
    )
    cluster.manager(controllers=[spec])
    with pytest.warns(RuntimeWarning) as warned:
        cluster.run_for(1.0)
    assert [warning.lineno for warning in warned] == lines_marked([9])


@pytest.mark.parametrize("spec", BUILT_IN, ids=lambda spec: spec.name)
def test_our_own_controllers_forget_none(spec: ControllerSpec) -> None:
    reconciler = spec.build(
        ControllerContext(
            tables=Bench({resource: [] for resource in spec.resources}).tables,
            clock=StillClock(),
            log=quiet_log(),
            metrics=Metrics(),
            options=read_options(
                [
                    "--cluster-cidr=10.0.0.0/16",
                    "--allocate-node-cidrs=true",
                    f"--service-account-private-key-file={key_file()}",
                ]
            ),
        )
    )
    functions = [*(queue.reconcile for queue in spec.queues), *(each.run for each in spec.passes)]
    assert forgotten_steps(reconciler, functions) == []


def test_source_of_built_in_controllers_is_not_parsed_at_a_start(
    cluster: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[type] = []
    monkeypatch.setattr(
        controller_plans, "warn_of_forgotten_steps", lambda reconciler, _: checked.append(type(reconciler))
    )
    spec = ControllerSpec(
        name="own",
        reads=(PODS,),
        queues=(Queue(watches=(Watch(PODS, to=itself),), reconcile=lambda _own, _key: helper()),),
        build=lambda _context: Careful(),
    )
    cluster.manager(controllers=(*BUILT_IN, spec))
    cluster.run_for(1.0)
    assert checked == [Careful]
