"""Texts of the start and the end of each built-in controller."""

from __future__ import annotations

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.engine.controller.start_lines import LIFECYCLE_LINES

WITHOUT_LINES = {"cloud-node-lifecycle-controller", "validatingadmissionpolicy-status-controller"}  # in upstream


def test_each_built_in_controller_has_the_lines_of_upstream() -> None:
    assert {spec.name for spec in BUILT_IN} - LIFECYCLE_LINES.keys() == WITHOUT_LINES
    assert LIFECYCLE_LINES.keys() - {spec.name for spec in BUILT_IN} == set()
