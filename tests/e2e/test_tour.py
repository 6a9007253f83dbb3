"""The commands in docs/tour.md and docs/autoscaling.md print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.pages import ANY, Example, check_page, differences


@pytest.mark.slow
@pytest.mark.timeout(600)  # the tour waits for evictions, expansions and expiring grace periods
@pytest.mark.parametrize("page", ["tour.md", "autoscaling.md"])
def test_commands_print_what_the_page_shows(page: str, tmp_path: Path) -> None:
    check_page(page, tmp_path)


@pytest.mark.parametrize(
    ("output", "printed", "right"),
    [
        (["NAME   AGE", "a-x2w4k   9s"], "NAME      AGE\na-6m6g7   1m10s\n", True),
        (["a 10.96.0.1"], "a 240.0.0.2\n", True),
        (["a", "b"], "b\na\n", True),
        (["a", "a"], "a\n", False),
        (["a"], "a\nb\n", False),
        (["a", ANY], "b\na\n", True),
        (["a", ANY], "b\n", False),
        (["web 3/3"], "web 2/3\n", False),
        (["web-6685f6956f-6m6g7"], "web-75df74cf96-6m6g7\n", False),
    ],
    ids=str,
)
def test_only_drawn_text_may_differ(output: list[str], printed: str, right: bool) -> None:
    assert (differences(Example("kubectl get", tuple(output)), printed) == "") is right
