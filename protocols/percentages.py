"""IntOrString: a count, or a percentage of a total (maxSurge, maxUnavailable, minAvailable).

Source: apimachinery pkg/util/intstr, GetScaledValueFromIntOrPercent.
"""

from __future__ import annotations

from kcm.protocols.integers import parse_int

IntOrString = int | str


def scaled_value(int_or_percent: IntOrString | None, total: int, *, round_up: bool) -> int:
    """Return an integer as it is, and a percentage as that share of total, rounded up or down to an integer.

    Percentages above 100 and negative numbers are allowed; the caller clamps. Raises ValueError on None and on a string
    that is not a percentage ("5", "oops", "1.5%").
    """
    if isinstance(int_or_percent, int) and not isinstance(int_or_percent, bool):
        return int_or_percent
    if int_or_percent is None:
        raise ValueError("nil value for IntOrString")
    whole, percent, rest = int_or_percent.rpartition("%") if isinstance(int_or_percent, str) else ("", "", "")
    percentage = parse_int(whole) if percent and not rest else None
    if percentage is None:
        raise ValueError(f"invalid value for IntOrString: {int_or_percent!r} is neither an integer nor a percentage")
    parts = percentage * total
    return -(-parts // 100) if round_up else parts // 100
