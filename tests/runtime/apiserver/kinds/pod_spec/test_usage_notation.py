"""Notation of simulated resource usage: values over time, and error texts."""

from __future__ import annotations

from decimal import Decimal

import pytest

from kcm.runtime.apiserver.kinds.pod_spec.usage_notation import read_usage


@pytest.mark.parametrize(
    ("text", "seconds", "amount"),
    [
        ("250m", 0, "0.25"),
        (" 1 ", 1e9, "1"),
        ("100Mi", 60, "104857600"),
        ("steps(100m)", 5, "0.1"),
        ("steps(100m, 60s: 800m, 5m: 0)", 0, "0.1"),
        ("steps(100m, 60s: 800m, 5m: 0)", 59.9, "0.1"),
        ("steps(100m, 60s: 800m, 5m: 0)", 60, "0.8"),
        ("steps(100m,1m:800m,5m:0)", 300, "0"),
        ("steps(100m, 60s: 800m)", -3, "0.1"),
        ("ramp(100m, 800m, 70s)", -3, "0.1"),
        ("ramp(100m, 800m, 70s)", 10, "0.2"),
        ("ramp(100m, 800m, 70s)", 1000, "0.8"),
        ("ramp(2, 1, 1m)", 30, "1.5"),
        ("sine(100m, 900m, 1m)", 0, "0.1"),
        ("sine(100m, 900m, 1m)", 15, "0.5"),
        ("sine(100m, 900m, 1m)", 30, "0.9"),
        ("sine(100m, 900m, 1m)", 60, "0.1"),
        ("sine(100m, 900m, 1m)", 70, "0.3"),
        ("ramp(0, 1, 3s)", 1, "0.333"),
        ("none", 5, None),
    ],
)
def test_usage_depends_on_its_notation_and_the_time(text: str, seconds: float, amount: str | None) -> None:
    assert read_usage(text)(seconds) == (None if amount is None else Decimal(amount))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", '"" is not a quantity: expected an amount (250m), steps('),
        ("much", '"much" is not a quantity'),
        ("-1", 'amount "-1" is negative'),
        ("100E", 'amount "100E" is too large'),
        ("sine(100m, 800m", '"sine(100m, 800m" is not a usage: expected an amount (250m), steps('),
        ("wave(1, 2, 3m)", '"wave(1, 2, 3m)" is not a usage: expected an amount'),
        ("steps()", '"" is not a quantity'),
        ("steps(1, 2)", 'step "2" must have the form 60s: 800m'),
        ("steps(1, 60: 2)", '"60" is not a duration such as 90s, 5m or 1h30m'),
        ("steps(1, 60s: 2, 1m: 3)", 'step "1m: 3" is not later than the previous step'),
        ("steps(1, 0s: 2)", 'step "0s: 2" is not later than the previous step'),
        ("ramp(1, 2)", "ramp takes three arguments (from, to, duration), not 2"),
        ("sine(1, 2, 3m, 4)", "sine takes three arguments (lowest, highest, period), not 4"),
        ("sine(1, 2, 0s)", 'duration "0s" is not positive'),
        ("ramp(1, 2, -1m)", 'duration "-1m" is not positive'),
        ("ramp(1, x, 1m)", '"x" is not a quantity'),
    ],
)
def test_malformed_usage_is_rejected_with_its_problem(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as raised:
        read_usage(text)
    assert str(raised.value).startswith(problem)
