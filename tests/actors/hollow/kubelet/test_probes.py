from __future__ import annotations

import math

import pytest

from kcm.actors.hollow.kubelet.probes import Probe, StateChange, course, first_verdict, probe_of, readiness, verdicts

PROBE = Probe(delay=2, period=10, failures=3, successes=1)


def test_a_probe_has_the_defaults_of_the_api() -> None:
    assert probe_of({"readinessProbe": {"exec": {}}}, "readiness") == Probe(0, 10, 3, 1)
    assert probe_of({"livenessProbe": {"exec": {}}}, "readiness") is None
    spec = {"initialDelaySeconds": 5, "periodSeconds": 1, "failureThreshold": 7, "successThreshold": 2}
    assert probe_of({"readinessProbe": spec}, "readiness") == Probe(5, 1, 7, 2)


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, [StateChange(0, True)]),
        ({"good_from": 5}, [StateChange(0, False), StateChange(5, True)]),
        ({"good_until": 5}, [StateChange(0, True), StateChange(5, False)]),
        ({"good_from": 5, "good_until": 5}, [StateChange(0, False)]),
    ],
)
def test_course_is_good_between_two_times(options: dict[str, float], expected: list[StateChange]) -> None:
    assert list(course(**options)) == expected


@pytest.mark.parametrize(
    "turns, expected",
    [
        (course(), [StateChange(2, True)]),
        (course(good_from=12), [StateChange(12, True)]),  # probes at 2, 12, 22: only one has failed
        (course(good_from=13), [StateChange(22, True)]),
        (course(good_until=30), [StateChange(2, True), StateChange(52, False)]),  # 32, 42, 52
        (course(good_from=33), [StateChange(22, False), StateChange(42, True)]),
        (course(good_until=0), [StateChange(22, False)]),
    ],
)
def test_probe_result_changes_at_its_threshold(turns: list[StateChange], expected: list[StateChange]) -> None:
    assert list(verdicts(PROBE, turns)) == expected


def test_computed_verdicts_equal_those_of_single_probes() -> None:
    for probe in (PROBE, Probe(0, 1, 1, 1), Probe(3, 7, 2, 3)):
        for good_from in range(0, 40, 3):
            for length in range(1, 90, 7):
                turns = course(good_from=good_from, good_until=good_from + length)
                assert list(verdicts(probe, turns)) == _asked(probe, turns), (probe, turns)


def _asked(probe: Probe, turns: list[StateChange]) -> list[StateChange]:
    """Compute the verdicts probe by probe, as upstream's worker."""
    seen, last, count = [], None, 0
    for number in range(200):
        at = probe.delay + number * probe.period
        good = [turn.good for turn in turns if turn.at <= at][-1]
        count = count + 1 if good == last else 1
        last = good
        if count == (probe.successes if good else probe.failures):
            seen.append(StateChange(at, good))
    return seen


def test_probe_of_a_later_container_start_succeeds_later() -> None:
    assert list(verdicts(PROBE, course(), since=31)) == [StateChange(31, True)]


def test_verdict_that_never_occurs_is_infinite() -> None:
    assert first_verdict(PROBE, course(), good=False) == math.inf


@pytest.mark.parametrize("age, ready, due", [(0, False, 5), (5, True, 20), (19, True, 20), (20, False, None)])
def test_without_a_probe_readiness_is_seen_at_once(age: float, ready: bool, due: float | None) -> None:
    assert readiness(None, course(good_from=5, good_until=20), since=0, age=age) == (ready, due)
