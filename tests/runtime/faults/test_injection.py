"""Times and conditions at which the faults of a plan strike."""

from __future__ import annotations

import pytest

from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import FaultKind, parse_faults
from kcm.runtime.simulation.clock import VirtualClock

CRASHED, HUNG = FaultKind.ACTOR_CRASHED, FaultKind.ACTOR_HUNG


def injector(faults: str, *, clock: VirtualClock | None = None, seed: int = 1) -> Injector:
    return Injector(parse_faults(faults), seed=seed, clock=clock or VirtualClock())


def strikes(faults: Injector, kind: FaultKind, *, times: int = 200, actor: str = "a") -> list[bool]:
    return [faults.strike(kind, actor=actor) is not None for _ in range(times)]


def test_a_fault_strikes_within_its_window_only() -> None:
    clock = VirtualClock()
    faults = injector("actor-crashed 5..10", clock=clock)
    seen = []
    for when in (4.9, 5.0, 9.9, 10.0):
        clock.advance_to(when)
        seen.append(faults.strike(CRASHED) is not None)
    assert seen == [False, True, True, False]


def test_next_time_is_the_earliest_of_faults_that_can_still_strike() -> None:
    clock = VirtualClock()
    faults = injector("actor-crashed 5..10 most=1; actor-hung 7..; command-lost 0..", clock=clock)
    seen = [faults.next_on((CRASHED, HUNG))]
    clock.advance_to(6.0)
    seen.append(faults.next_on((CRASHED, HUNG)))
    faults.strike(CRASHED)
    seen.append(faults.next_on((CRASHED, HUNG)))
    clock.advance_to(8.0)
    seen += [faults.next_on((CRASHED, HUNG)), faults.next_on((CRASHED,))]
    assert seen == [5.0, 6.0, 7.0, 8.0, float("inf")]


@pytest.mark.parametrize(
    ("scope", "where"),
    [
        ("actor=controller:*", {"actor": "controller:ttl"}),
        ("process=manager*", {"process": "manager-2"}),
        ("resource=pods", {"resource": "pods"}),
        ("object=default/web-*", {"key": "default/web-1"}),
    ],
)
def test_a_fault_strikes_within_its_scope_only(scope: str, where: dict[str, str]) -> None:
    faults = injector(f"actor-crashed {scope}")
    assert faults.strike(CRASHED, **where) is not None
    assert faults.strike(CRASHED, **dict.fromkeys(where, "elsewhere")) is None
    assert faults.strike(HUNG, **where) is None


def test_fault_strikes_at_most_its_limit() -> None:
    faults = injector("actor-crashed most=3")
    assert sum(strikes(faults, CRASHED)) == 3
    assert faults.struck == {CRASHED: 3}


def test_a_rate_is_the_share_of_opportunities() -> None:
    assert 0.2 < sum(strikes(injector("actor-crashed rate=0.3"), CRASHED, times=1000)) / 1000 < 0.4
    assert not any(strikes(injector("actor-crashed rate=0"), CRASHED))


def test_the_seed_decides_when_it_strikes() -> None:
    def seen(seed: int) -> list[bool]:
        return strikes(injector("actor-crashed rate=0.5", seed=seed), CRASHED)

    assert seen(1) == seen(1)
    assert seen(1) != seen(2)


def test_strikes_do_not_depend_on_other_faults_of_the_plan() -> None:
    """Shrinking of plans relies on this."""
    alone = strikes(injector("actor-crashed rate=0.5"), CRASHED)
    together = injector("actor-hung rate=0.5; actor-crashed rate=0.5")
    both = [(together.strike(HUNG) is not None, together.strike(CRASHED, actor="a") is not None) for _ in alone]
    assert [crashed for _, crashed in both] == alone


def test_the_faults_of_a_plan_strike_independently() -> None:
    faults = injector("actor-crashed actor=a rate=0.5; actor-crashed actor=b rate=0.5")
    assert strikes(faults, CRASHED, actor="a") != strikes(faults, CRASHED, actor="b")


def test_only_kinds_of_the_plan_are_planned() -> None:
    faults = injector("actor-hung")
    assert (faults.plans(HUNG), faults.plans(CRASHED)) == (True, False)


def test_the_share_of_a_fault_is_a_new_number_each_time() -> None:
    faults = injector("actor-hung seconds=5")
    (fault,) = faults.faults
    shares = [faults.share(fault) for _ in range(100)]
    assert all(0.0 <= share < 1.0 for share in shares)
    assert len(set(shares)) == 100
