"""Notation of simulated resource usage: an amount, or a function of the time since the pod's start.

    250m                                  constant
    steps(100m, 60s: 800m, 5m: 200m)      100m at first, 800m after 60 s, 200m after five minutes
    ramp(100m, 800m, 5m)                  linear from 100m to 800m in five minutes, then constant
    sine(100m, 800m, 10m)                 sine between both with a period of ten minutes, starting at 100m
    none                                  usage is unavailable

Amounts are quantities of at least 0, durations are Go durations. The result depends only on the text and the time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.quantities import parse_quantity
from kcm.runtime.scheduling.go_durations import nanoseconds_of

Usage = Callable[[float], Decimal | None]  # called with the seconds since the start

_FORMS = "an amount (250m), steps(100m, 60s: 800m), ramp(100m, 800m, 5m), sine(100m, 800m, 10m) or none"
_FUNCTION = re.compile(r"(steps|ramp|sine)\((.*)\)", re.DOTALL)
_TOO_MUCH = 2**63
_THOUSANDTHS = Decimal("0.001")  # values of curves are rounded to this unit


@bounded_cache(1024)  # pods of one template have the same
def read_usage(text: str) -> Usage:
    """Parse a usage annotation into a function of the seconds since the start of the pod.

    The function returns the usage in the unit of the resource; None for the value "none".

    Raises ValueError with a description of the error.
    """
    text = text.strip()
    if text == "none":
        return lambda _seconds: None
    function = _FUNCTION.fullmatch(text)
    if function is not None:
        return _FUNCTIONS[function[1]]([argument.strip() for argument in function[2].split(",")])
    if "(" in text:
        raise ValueError(f'"{text}" is not a usage: expected {_FORMS}')
    amount = _amount(text)
    return lambda _seconds: amount


def _steps(arguments: Sequence[str]) -> Usage:
    steps = [(0.0, _amount(arguments[0]))]
    for step in arguments[1:]:
        time, colon, amount = step.partition(":")
        if not colon:
            raise ValueError(f'step "{step}" must have the form 60s: 800m')
        since = _seconds(time.strip())
        if since <= steps[-1][0]:
            raise ValueError(f'step "{step}" is not later than the previous step')
        steps.append((since, _amount(amount.strip())))
    return lambda seconds: next(amount for since, amount in reversed(steps) if since <= max(seconds, 0.0))


def _ramp(arguments: Sequence[str]) -> Usage:
    first, last, over = _curve_arguments("ramp", arguments, "from, to, duration")
    return lambda seconds: _interpolate(first, last, min(max(seconds / over, 0.0), 1.0))


def _sine(arguments: Sequence[str]) -> Usage:
    low, high, period = _curve_arguments("sine", arguments, "lowest, highest, period")
    return lambda seconds: _interpolate(low, high, (1 - math.cos(2 * math.pi * (seconds % period) / period)) / 2)


_FUNCTIONS: Mapping[str, Callable[[Sequence[str]], Usage]] = {"steps": _steps, "ramp": _ramp, "sine": _sine}


def _curve_arguments(name: str, arguments: Sequence[str], what: str) -> tuple[Decimal, Decimal, float]:
    if len(arguments) != 3:
        raise ValueError(f"{name} takes three arguments ({what}), not {len(arguments)}")
    over = _seconds(arguments[2])
    if over <= 0:
        raise ValueError(f'duration "{arguments[2]}" is not positive')
    return _amount(arguments[0]), _amount(arguments[1]), over


def _interpolate(lower: Decimal, upper: Decimal, share: float) -> Decimal:
    return (lower + (upper - lower) * Decimal(f"{share:.9f}")).quantize(_THOUSANDTHS)


def _amount(text: str) -> Decimal:
    try:
        amount = parse_quantity(text)
    except ValueError:
        raise ValueError(f'"{text}" is not a quantity: expected {_FORMS}') from None
    if not 0 <= amount < _TOO_MUCH:
        raise ValueError(f'amount "{text}" is {"negative" if amount < 0 else "too large"}')
    return amount


def _seconds(text: str) -> float:
    try:
        return nanoseconds_of(text) / 1e9
    except ValueError:
        raise ValueError(f'"{text}" is not a duration such as 90s, 5m or 1h30m') from None
