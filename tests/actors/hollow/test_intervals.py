from __future__ import annotations

import pytest

from kcm.actors.hollow.intervals import MOMENT, look_again


@pytest.mark.parametrize(
    "due, seconds",
    [(1010.0, 10.0), (1000.0, MOMENT), (990.0, MOMENT), (1000.0000000000001, MOMENT)],
)
def test_time_goes_on_before_the_next_look(due: float, seconds: float) -> None:
    assert look_again(due=due, now=1000.0).seconds == seconds
