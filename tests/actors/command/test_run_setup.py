"""Setup of the command: its system depends on the flags and on the environment."""

from __future__ import annotations

import pytest

from kcm.actors.command.run_setup import MUTATION_DETECTOR, is_true


@pytest.mark.parametrize(
    ("value", "is_set"),
    [("true", True), ("1", True), ("T", True), ("false", False), ("0", False), ("", False), ("yes", False)],
)
def test_environment_variable_is_read_as_go_reads_booleans(value: str, is_set: bool) -> None:
    assert is_true({MUTATION_DETECTOR: value}, MUTATION_DETECTOR) is is_set


def test_missing_environment_variable_is_false() -> None:
    assert not is_true({}, MUTATION_DETECTOR)
