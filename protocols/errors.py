"""Error texts of several errors, as Go programs print them."""

from __future__ import annotations

from collections.abc import Iterable


def aggregate(texts: Iterable[str]) -> str:
    """Each distinct text once: "a" of one, "[a, b]" of several, "" of none.

    Source: apimachinery pkg/util/errors, NewAggregate.
    """
    distinct = list(dict.fromkeys(texts))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)
