"""Log lines as text and as JSON."""

from __future__ import annotations

import json
import time

import pytest

from kcm.runtime.logs.lines import JsonLines, LocalTime, TextLines, stack

NOON = 1763726400.25  # 2025-11-21 12:00:00.25 UTC


def test_the_process_id_is_seven_wide() -> None:
    line = TextLines(pid=42)("info", NOON, "s", "m", {})
    assert line[21:] == '      42 s] "m"'


@pytest.mark.parametrize(
    "value, shown",
    [
        ("a", '"a"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("größe", '"größe"'),
        ("a\nb", "<\n\ta\n\tb\n >"),
        (3, "3"),
        (0.1, "0.1"),
        (True, "true"),
        (None, "null"),
        (b"raw", '"raw"'),
        (ValueError("no"), '"no"'),
        ({"a": [1, 2]}, '{"a":[1,2]}'),
        ((1, "b"), '[1,"b"]'),
        ({"b", "a"}, '["a","b"]'),
        ({1: object}, '{"1":"<class \'object\'>"}'),
        ({"n": 1 << 70}, "\"{'n': 1180591620717411303424}\""),
    ],
)
def test_values_are_shown_by_their_kind(value: object, shown: str) -> None:
    assert TextLines(pid=1)("info", NOON, "s", "m", {"key": value}).partition("] ")[2] == f'"m" key={shown}'


def test_json_lines_have_kubernetes_keys() -> None:
    line = JsonLines()("info", NOON, "job-controller", "done", {"key": "a/b", "n": 2}, caller="a/b.py:1")
    assert json.loads(line) == {
        "ts": 1763726400250.0,
        "level": "info",
        "caller": "a/b.py:1",
        "logger": "job-controller",
        "msg": "done",
        "v": 0,
        "key": "a/b",
        "n": 2,
    }


@pytest.mark.parametrize("level, v", [("debug", 4), ("info", 0), ("warning", 0), ("error", None)])
def test_json_lines_below_error_have_a_verbosity(level: str, v: int | None) -> None:
    assert json.loads(JsonLines()(level, NOON, "s", "m", {})).get("v") == v


def test_json_info_lines_have_their_own_verbosity() -> None:
    assert json.loads(JsonLines()("info", NOON, "s", "m", {}, 2))["v"] == 2


def test_fact_never_replaces_the_keys_of_the_line_itself() -> None:
    line = json.loads(JsonLines()("info", NOON, "s", "m", {"level": 7, "msg": "other"}))
    assert (line["level"], line["level_"], line["msg"], line["msg_"]) == ("info", 7, "m", "other")


def test_fact_error_has_klogs_key() -> None:
    assert json.loads(JsonLines()("error", NOON, "s", "m", {"error": "no"}))["err"] == "no"
    assert TextLines(pid=1)("error", NOON, "s", "m", {"error": "no"}).endswith(' "m" err="no"')


def test_json_lines_of_the_program_itself_have_no_logger() -> None:
    lines = JsonLines("kcm")
    assert list(json.loads(lines("info", NOON, "kcm", "m", {"n": 1}))) == ["ts", "level", "caller", "msg", "v", "n"]
    assert json.loads(lines("info", NOON, "kcm", "m", {"logger": "other"}))["logger_"] == "other"


def test_stack_is_formatted_from_error_or_exc_info() -> None:
    error = ValueError("no")
    assert stack(error) == stack((ValueError, error, None)) == "ValueError: no"
    assert stack((None, None, None)) == ""


def test_time_is_rounded_up_to_the_next_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    local = LocalTime()
    assert local(NOON) == "1121 12:00:00.250000"
    assert local(1763726400.9999999) == "1121 12:00:01.000000"
    assert local(1763726399.0) == "1121 11:59:59.000000"
    monkeypatch.undo()
    time.tzset()
