"""State of a starting process, as other processes read it."""

from __future__ import annotations

import stat
from pathlib import Path

from kcm.runtime.process.start_state import FILE, ObservedStart, StartState, observe


def test_directory_without_state_file_has_no_running_process(tmp_path: Path) -> None:
    assert observe(tmp_path) == observe(tmp_path / "missing") == ObservedStart()


def test_other_processes_see_each_state_while_the_process_runs(tmp_path: Path) -> None:
    with StartState(tmp_path) as start:
        assert observe(tmp_path) == ObservedStart(is_running=True, text="starting")
        start.set("1 of 3 nodes ready")
        assert observe(tmp_path) == ObservedStart(is_running=True, text="1 of 3 nodes ready")
        start.set("", is_ready=True)
        assert observe(tmp_path) == ObservedStart(is_running=True, is_ready=True)
        assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_state_of_a_process_that_has_ended_does_not_count(tmp_path: Path) -> None:
    with StartState(tmp_path) as start:
        start.set("", is_ready=True)
    assert observe(tmp_path) == ObservedStart()


def test_next_start_begins_as_not_ready(tmp_path: Path) -> None:
    with StartState(tmp_path) as start:
        start.set("", is_ready=True)
    with StartState(tmp_path):
        assert observe(tmp_path) == ObservedStart(is_running=True, text="starting")


def test_half_written_state_is_a_start(tmp_path: Path) -> None:
    with StartState(tmp_path):
        (tmp_path / FILE).write_text('{"ready": tr')
        assert observe(tmp_path) == ObservedStart(is_running=True, text="starting")
