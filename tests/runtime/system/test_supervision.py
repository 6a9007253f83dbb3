"""Delays of restarts, and the limit after which an actor is not restarted."""

from __future__ import annotations

from kcm.runtime.system.supervision import RestartPolicy, restart_delay


def test_restart_delay_grows_until_the_child_is_not_restarted() -> None:
    policy = RestartPolicy(intensity=3, period=100.0)
    delays = [restart_delay([0.0] * n, now=0.0, policy=policy, chance=0.0) for n in range(1, 5)]
    assert delays == [0.1, 0.2, 0.4, None]


def test_failures_outside_the_period_do_not_count() -> None:
    policy = RestartPolicy(intensity=3, period=100.0)
    assert restart_delay([0.0, 1.0, 2.0, 150.0], now=150.0, policy=policy, chance=0.0) == 0.1
