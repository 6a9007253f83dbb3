"""Catalogue of causes, and its table in docs/why.md: `python -m tests.actors.explanation.test_catalogue` writes it."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from kcm.actors.explanation.catalogue import CATALOGUE, CAUSES
from tests.actors.explanation import other_tools

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "why.md"
BEGIN, END = "<!-- causes -->\n", "<!-- end of causes -->\n"


def table() -> str:
    """Return the table of causes, by domain."""
    lines = []
    for domain in dict.fromkeys(cause.domain for cause in CAUSES):
        lines += ["", f"### {domain}", "", "| code | cause | shown by |", "| --- | --- | --- |"]
        lines += [
            f"| `{cause.code}` | {cause.meaning} | {cause.shown_by} |" for cause in CAUSES if cause.domain == domain
        ]
    return "\n".join([*lines[1:], ""])


def codes_in_rules() -> set[str]:
    """Return all texts in the rules that look like a code."""
    found: set[str] = set()
    for path in (ROOT / "actors" / "explanation").glob("*.py"):
        if path.name != "catalogue.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {
                node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    return found


def test_codes_are_unique_and_commands_can_be_filled_in() -> None:
    assert len(CATALOGUE) == len(CAUSES)
    for cause in CAUSES:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", cause.code)
        cause.command.format(kind="pod", name="web", namespace=" -n shop", controller="job-controller")


def test_each_code_is_used_by_a_rule() -> None:
    used = codes_in_rules()
    assert [cause.code for cause in CAUSES if cause.code not in used] == []


def test_page_has_the_table_of_causes() -> None:
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    assert rest.partition(END)[0] == table(), "write it: python -m tests.actors.explanation.test_catalogue"


def test_page_of_the_trial_has_the_table_of_scenarios() -> None:
    _, _, rest = other_tools.PAGE.read_text(encoding="utf-8").partition(other_tools.BEGIN)
    assert rest.partition(other_tools.END)[0] == other_tools.table(), (
        "write it: python -m tests.actors.explanation.other_tools"
    )


def main() -> int:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
