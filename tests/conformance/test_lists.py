"""Lists of passing specs: parsing, comparison and output, and the validity of the recorded lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.clusters import CLUSTERS
from tests.conformance.lists import UNEXPLAINED, Expected, differences, list_path
from tests.conformance.suite import Result, State

LISTED = Expected(frozenset({"a", "b"}), {"c": "needs exec", "d": "needs exec", "e": "kind not served"})


def results(**states: State) -> list[Result]:
    return [Result(spec, state, "", 1.0) for spec, state in states.items()]


FOUND = results(a=State.PASSED, b=State.TIMED_OUT, c=State.PASSED, d=State.FAILED, f=State.PASSED, g=State.SKIPPED)


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "list.yml"
    LISTED.write(path)
    assert Expected.read(path) == LISTED
    assert path.read_text().startswith("passes:\n- a\n- b\nfails:\n  kind not served:\n")
    assert Expected.read(tmp_path / "none.yml") == Expected(frozenset(), {})


def test_a_spec_that_is_listed_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "list.yml"
    path.write_text("passes: [a, b]\nfails: {a reason: [c], another: [a]}\n")
    with pytest.raises(ValueError, match=r"listed twice: a$"):
        Expected.read(path)


def test_broken_fixed_and_unknown_specs_are_reported() -> None:
    found = differences(LISTED, FOUND)
    assert [result.spec for result in found.broken] == ["b"]
    assert [result.spec for result in found.fixed] == ["c", "f"]
    assert [result.spec for result in found.unknown] == ["g"]


def test_a_new_list_keeps_reasons_and_what_was_not_run() -> None:
    after = LISTED.after(FOUND)
    assert after.passes == {"a", "c", "f"}
    assert after.fails == {"b": UNEXPLAINED, "d": "needs exec", "e": "kind not served", "g": UNEXPLAINED}


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_each_failing_spec_in_a_list_has_a_reason(cluster: str) -> None:
    listed = Expected.read(list_path(cluster))
    assert UNEXPLAINED not in listed.fails.values()


def test_the_lists_are_about_the_same_specs() -> None:
    embedded, real = (Expected.read(list_path(cluster)) for cluster in ("embedded", "real"))
    assert {*embedded.passes, *embedded.fails} == {*real.passes, *real.fails}
