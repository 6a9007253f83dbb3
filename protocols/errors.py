"""Text of several errors, aggregated as in Go programs."""

from __future__ import annotations

from collections.abc import Iterable


def aggregate(texts: Iterable[str]) -> str:
    """Return each distinct text once: "a" for one text, "[a, b]" for several, "" for none.

    Source: apimachinery pkg/util/errors, NewAggregate.
    """
    distinct = list(dict.fromkeys(texts))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)
