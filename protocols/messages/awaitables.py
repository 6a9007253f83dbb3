"""Base class of the values that a reconciliation yields: in a coroutine `await create(…)` means `yield create(…)`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Awaited(Generic[T_co]):
    """A value that is yielded when it is awaited. The driver sends back the result, of type T_co."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, T_co]:
        answer: T_co = yield self
        return answer
