"""Record and replay of a run of a controller on several clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kcm.actors.command.journal.replay import replay
from kcm.actors.options import Options
from kcm.actors.simulation.campaign.checks import check
from kcm.actors.simulation.campaign.recorder import Recording
from kcm.runtime.system.journal import read_journal
from tests.support.examples import copy_operator, test_copies


def test_controller_of_two_clusters_is_replayed(tmp_path: Path, log: Any) -> None:
    path = tmp_path / "journal"
    with_faults = check(1, (), setting=test_copies.SETTING, compared=False, recording=Recording(path))
    assert not with_faults.violations
    spec = copy_operator.COPIER
    done = replay(
        list(read_journal(path)), spec.name, specs=(spec,), read_options=lambda _arguments: Options(), log=log
    )
    assert done.difference is None
    assert done.batches > 1
