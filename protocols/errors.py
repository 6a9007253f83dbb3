"""Text of several errors, aggregated as in Go programs; and memory that handled errors refer to."""

from __future__ import annotations

import traceback
from collections.abc import Iterable

# Errors of Python that malformed input causes in code without checks: these types and none of their subclasses.
ACCIDENTS = (TypeError, AttributeError, KeyError, IndexError)


def aggregate(texts: Iterable[str]) -> str:
    """Return each distinct text once: "a" for one text, "[a, b]" for several, "" for none.

    Source: apimachinery pkg/util/errors, NewAggregate.
    """
    distinct = list(dict.fromkeys(texts))
    return f"[{', '.join(distinct)}]" if len(distinct) > 1 else "".join(distinct)


def clear_frames(error: BaseException) -> None:
    """Clear the local variables of the ended functions in the tracebacks of an exception, its causes and contexts.

    Call this for an exception that was handled. A function that assigns an exception to a variable and raises it forms
    a reference cycle through its frame, which keeps everything that the functions of the traceback referred to.
    """
    seen: set[int] = set()
    remaining: list[BaseException | None] = [error]
    while remaining:
        if (found := remaining.pop()) is not None and id(found) not in seen:
            seen.add(id(found))
            traceback.clear_frames(found.__traceback__)
            remaining += (found.__cause__, found.__context__)
