import pytest

from actors.hollow.behaviour import EXIT_CODE, RUN_SECONDS, SILENT, exit_code, is_silent, seconds


def annotated(name, value):
    return {"metadata": {"annotations": {name: value}}}


@pytest.mark.parametrize(
    "text, expected",
    [("0", 0.0), ("1.5", 1.5), ("1e2", 100.0), ("-1", None), ("nan", None), ("inf", None), ("", None), ("5s", None)],
)
def test_seconds_are_finite_and_not_negative_or_else_not_said(text, expected):
    assert seconds(annotated(RUN_SECONDS, text), RUN_SECONDS) == expected


def test_seconds_that_are_not_there_are_not_said():
    assert seconds({"metadata": {}}, RUN_SECONDS) is None


@pytest.mark.parametrize(
    "text, expected", [("0", 0), ("1", 1), ("255", 255), ("256", None), ("-1", None), ("one", None), ("", None)]
)
def test_exit_codes_are_those_of_a_process(text, expected):
    assert exit_code(annotated(EXIT_CODE, text)) == expected


@pytest.mark.parametrize("text, silent", [("true", True), ("True", False), ("false", False), ("", False)])
def test_a_node_is_silent_if_it_says_exactly_that(text, silent):
    assert is_silent(annotated(SILENT, text)) is silent
