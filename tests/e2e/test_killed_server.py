"""Recovery from kill -9 under load: acknowledged writes exist, versions are unique, and watches resume or relist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.server_kills import kill_repeatedly

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(120)
def test_a_server_that_is_killed_keeps_what_it_has_acknowledged(tmp_path: Path) -> None:
    counted = kill_repeatedly(tmp_path / "kcm", rounds=3, seed=1)
    assert counted["acknowledged"] > 0
    assert counted["resumed watches"] + counted["watches that got 410"] == 6


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_hundred_times(tmp_path: Path) -> None:
    counted = kill_repeatedly(tmp_path / "kcm", rounds=200, seed=2)
    assert counted["acknowledged"] > 2000
