from __future__ import annotations

import pytest

from kcm.actors.hollow.intervals import MOMENT, look_again


@pytest.mark.parametrize(
    "due, seconds",
    [(1010.0, 10.0), (1000.0, MOMENT), (990.0, MOMENT), (1000.0000000000001, MOMENT)],
)
def test_next_sync_is_never_due_at_once(due: float, seconds: float) -> None:
    assert look_again(due=due, now=1000.0).seconds == seconds
