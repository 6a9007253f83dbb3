"""What a reconciliation yields, as `await` takes it in a coroutine: `await create(…)` is `yield create(…)`."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Awaited(Generic[T_co]):
    """To await it is to yield it; the result, of type T_co, is what the driver sends back."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, T_co]:
        answer: T_co = yield self
        return answer
