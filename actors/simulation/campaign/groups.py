"""Groups of seeds with similar failures, so that a campaign reports each failure only once.

Two failures are similar if their first violations differ only in numbers and in names that the seeds draw.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcm.actors.simulation.campaign.runs import ACTIONS_ARE_POSSIBLE, SETTLES
from kcm.actors.simulation.campaign.seed_results import Tried
from kcm.actors.simulation.invariants.observer import Violation

MOST_SEEDS = 10  # maximum number of seeds of a group that its line lists

_TOKEN = re.compile(r"[A-Za-z0-9._-]+")
_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")
_DRAWN = re.compile(r".*\d.*|[bcdfghjklmnpqrstvwxz]{5}")  # a part of a name: with a number, or a generated suffix
_PADDING = re.compile(r"x{5,}$")  # padding of the longest name that a scenario draws
_REPEATED = re.compile(r"('[^']*')(, \1)+")


def pattern_of(violation: Violation) -> str:
    """Return the text of a violation in a form that is equal for similar failures.

    It contains no time, no numbers, and no parts of names that seeds draw.
    """
    text = violation.text
    if violation.invariant in (SETTLES, ACTIONS_ARE_POSSIBLE):  # "after 250 s: " and a list in no particular order
        text = "; ".join(sorted({_pattern(part) for part in text.partition(": ")[2].split("; ")}))
    else:
        text = _pattern(text)
    return f"{violation.invariant}: {text}"


def _pattern(text: str) -> str:
    return _REPEATED.sub(r"\1", _TOKEN.sub(lambda found: _stem(found[0]), text))


def _stem(token: str) -> str:
    """Return a name without the suffixes that a scenario or the server added: "db" for "db-10-0"."""
    name = token.rstrip(".")
    end = token[len(name) :]
    if _VERSION.fullmatch(name):
        return token
    parts = name.split("-")
    kept = next((number for number, part in enumerate(parts) if _DRAWN.fullmatch(part)), len(parts))
    if kept == len(parts):
        return _PADDING.sub("", name) + end
    if kept == 0:
        return (re.sub(r"\d.*", "", parts[0]) or "#") + end  # "db0", or a number
    return "-".join(parts[:kept]) + end


class Groups:
    """Failed seeds of a campaign, grouped by the text of their first violation without numbers and drawn names."""

    def __init__(self) -> None:
        self._groups: dict[str, list[Tried]] = {}

    def add(self, failed: Tried) -> str:
        """Add a failed seed. Returns its report, or a reference to an earlier seed if that failed similarly."""
        similar = self._groups.setdefault(pattern_of(failed.violations[0]), [])
        similar.append(failed)
        if len(similar) == 1:
            return failed.report
        return (
            f"seed {failed.seed} fails as seed {similar[0].seed} does:\n"
            f"  {failed.violations[0]}\n"
            f"replay:\n"
            f"  {failed.replay}"
        )

    def lines(self) -> Iterator[str]:
        """Yield a line for each group of similar failures, largest first: number of seeds, violation, and seeds."""
        for pattern, similar in sorted(self._groups.items(), key=lambda group: -len(group[1])):
            seeds = " ".join(str(failed.seed) for failed in similar[:MOST_SEEDS])
            more = f" and {len(similar) - MOST_SEEDS} more" if len(similar) > MOST_SEEDS else ""
            yield f"{len(similar)} failed: {pattern} (seed{'s' * (len(similar) > 1)} {seeds}{more})"
