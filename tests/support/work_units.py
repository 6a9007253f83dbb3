"""Distribution of the tests to the workers of pytest-xdist: the units of work and their order.

End-to-end tests start first, and the longest units of each kind, so that all workers are busy until the end. The
durations of units are in `durations.json`; record them again after large changes, on an otherwise idle machine:

    bin/test -n 2 --record-durations
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

DEALT = "tests/faults/"  # directory of seeded runs
BY_CONTRACT = "tests/runtime/apiserver/contracts/test_contracts.py"  # its tests are named [CONTRACT: SCENARIO]
FIRST = "tests/e2e/"  # directory of tests that wait for processes; the cluster that they share ends with them
OWN_CLUSTER = "tests/e2e/conftest.py"  # unit of the following files, which share a cluster of three processes
SHARING = frozenset(
    f"tests/e2e/test_{name}.py"
    for name in (
        *("autoscaling", "command_line", "cron_jobs", "daemon_sets", "deployment", "devices", "disruption_budgets"),
        *("garbage_collector", "helm", "hollow_pods", "jobs", "namespace", "replication_controller", "resource_quota"),
        *("services", "stateful_sets", "ttl_after_finished", "why"),
    )
)
RECORDED = Path(__file__).with_name("durations.json")
SHORTEST = 1.0  # seconds; shorter units are not recorded and run last


class UnitScheduling(LoadScopeScheduling):
    """Run the tests of a file on one worker, since they share what they started; deal seeded runs to all workers.

    The files that share a cluster run on one worker, too. Each contract has servers of its own, so these are dealt.

    xdist's own `loadgroup` writes the group into a name that pytest 9.2 does not read any more.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def unit_of(nodeid: str) -> str:
    """Return the unit of work of a test: its file, its cluster, its contract, or itself if it is a seeded run."""
    file = nodeid.partition("::")[0]
    if file in SHARING:
        return OWN_CLUSTER
    if file == BY_CONTRACT:
        return nodeid.partition(": ")[0]
    return nodeid if file.startswith(DEALT) else file


def sort_by_duration(items: list[pytest.Item]) -> None:
    """Sort tests by the recorded duration of their files' units, longest first. Each file stays in one piece.

    End-to-end tests precede all others.
    """
    durations: dict[str, float] = json.loads(RECORDED.read_text())

    def place(item: pytest.Item) -> tuple[bool, float]:
        file = unit_of(item.nodeid).partition("::")[0]
        return not file.startswith(FIRST), -durations.get(file, 0.0)

    items.sort(key=place)


class DurationRecorder:
    """Plugin that records the duration of the longest unit of each file."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)  # by unit

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[unit_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self) -> None:
        longest: dict[str, float] = defaultdict(float)
        for unit, seconds in self._seconds.items():
            file = unit.partition("::")[0]
            longest[file] = max(longest[file], seconds)
        kept = {file: round(seconds, 1) for file, seconds in sorted(longest.items()) if seconds >= SHORTEST}
        RECORDED.write_text(json.dumps(kept, indent=1) + "\n")
