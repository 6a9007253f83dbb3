"""Lists of the specs that pass on a cluster, and of the reasons why others fail: `<cluster>.yml`.

passes: [a spec, …]
fails: {a reason: [a spec, …], …}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import yaml

from tests.conformance.suite import Result, State

UNEXPLAINED = "nobody has looked yet"  # a test refuses this reason


def list_path(cluster: str) -> Path:
    return Path(__file__).with_name(f"{cluster}.yml")


@dataclass(frozen=True, slots=True)
class Expected:
    """Expected results of a cluster. fails: reasons by spec."""

    passes: frozenset[str]
    fails: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a list. Raises ValueError for a spec that is listed twice."""
        listed: dict[str, Any] = yaml.safe_load(path.read_text()) if path.exists() else {}
        passes = list(listed.get("passes") or ())
        fails = [(spec, reason) for reason, specs in (listed.get("fails") or {}).items() for spec in specs]
        names = [*passes, *(spec for spec, _ in fails)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{path}: listed twice: {'; '.join(twice)}")
        return cls(frozenset(passes), dict(fails))

    def write(self, path: Path) -> None:
        by_reason: dict[str, list[str]] = {}
        for spec, reason in sorted(self.fails.items()):
            by_reason.setdefault(reason, []).append(spec)
        listed = {"passes": sorted(self.passes), "fails": dict(sorted(by_reason.items()))}
        path.write_text(yaml.safe_dump(listed, sort_keys=False, width=1000))

    def after(self, results: Iterable[Result]) -> Expected:
        """Return the list with new results. A spec that still fails keeps its reason."""
        passes, fails = set(self.passes), dict(self.fails)
        for result in results:
            if result.state is State.PASSED:
                passes.add(result.spec)
                fails.pop(result.spec, None)
            else:
                passes.discard(result.spec)
                fails.setdefault(result.spec, UNEXPLAINED)
        return Expected(frozenset(passes), fails)


@dataclass(frozen=True, slots=True)
class Differences:
    """Results that differ from the list.

    broken: specs that failed and are listed as passing.
    fixed: specs that passed and are not listed as passing.
    unknown: specs that failed and are not listed.
    """

    broken: list[Result]
    fixed: list[Result]
    unknown: list[Result]


def differences(expected: Expected, results: Iterable[Result]) -> Differences:
    found = Differences([], [], [])
    for result in results:
        if result.state is State.PASSED:
            if result.spec not in expected.passes:
                found.fixed.append(result)
        elif result.spec in expected.passes:
            found.broken.append(result)
        elif result.spec not in expected.fails:
            found.unknown.append(result)
    return found
