"""Go's text form of floating-point numbers."""

from __future__ import annotations

import math
from decimal import Decimal


def shown_double(value: float) -> str:
    """Format with the shortest digits that parse to the same value; exponents below -4 and from 6 on are written.

    Source: Go strconv/ftoa.go, format 'g' with precision -1.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(digits) + exponent  # digits before the point
    mark = "-" if sign else ""
    if point - 1 < -4 or point - 1 >= 6:
        mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
        return f"{mark}{mantissa}e{'-' if point < 1 else '+'}{abs(point - 1):02d}"
    if point <= 0:
        return f"{mark}0.{'0' * -point}{text}"
    if point >= len(text):
        return f"{mark}{text}{'0' * (point - len(text))}"
    return f"{mark}{text[:point]}.{text[point:]}"
