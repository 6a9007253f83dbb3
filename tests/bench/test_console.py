from __future__ import annotations

from tests.bench.console import MANAGER, verdicts
from tests.bench.report import Report

WARM_UP = [9.0] * 4  # samples


def test_growth_after_the_warm_up_is_reported() -> None:
    report = Report(quiet=True)
    for value in [*WARM_UP, 2.0, 2.0, 2.1, 2.1, 2.2, 2.2]:
        report.add("zones", "Chromium", scripts_mb=value)
    for value in [*WARM_UP, 2.0, 2.0, 2.3, 2.3, 2.6, 2.6]:
        report.add("pods", "Chromium", scripts_mb=value)
    for value in [*WARM_UP, 100.0, 100.0, 101.0, 101.0, 102.0, 102.0]:
        report.add(MANAGER, "kcm", resident_mb=value)
    found = dict(verdicts(report))
    assert list(found.values()) == [True, False, True]
    assert "pods scripts_mb: 9.00 at first, 2.60 in the end, grown by +0.60 MB (more than 0.30)" in found
