from __future__ import annotations

import io
import json
import logging
import os
import re
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from kcm.runtime.logs.configuration import LogControl, LogSettings, configure_logging, logger_for

NOON = 1763726400.25  # 2025-11-21 12:00:00.25 UTC

Start = Callable[..., tuple[LogControl, io.StringIO]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Configure logging with a stopped clock, and restore the previous configuration."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    controls: list[LogControl] = []

    def begin(**settings: Any) -> tuple[LogControl, io.StringIO]:
        stderr = io.StringIO()
        controls.append(configure_logging(LogSettings(**settings), now=lambda: NOON, stderr=stderr))
        return controls[-1], stderr

    yield begin
    for control in controls:
        control.close()
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()
    monkeypatch.undo()
    time.tzset()


def lines(stderr: io.StringIO) -> list[str]:
    return [re.sub(r"^(.{21}) +\d+ ", r"\1 PID ", line) for line in stderr.getvalue().splitlines()]


@pytest.mark.parametrize(
    "method, head",
    [
        ("info", "I1121 12:00:00.250000"),
        ("warning", "W1121 12:00:00.250000"),
        ("error", "E1121 12:00:00.250000"),
        ("critical", "F1121 12:00:00.250000"),
    ],
)
def test_text_line_has_klogs_format(start: Start, method: str, head: str) -> None:
    _, stderr = start()
    getattr(logger_for("replicaset-controller", incarnation=2), method)("pod created", key="default/web", pod="web-x")
    assert lines(stderr) == [
        f'{head} PID replicaset-controller] "pod created" incarnation=2 key="default/web" pod="web-x"'
    ]


def test_json_format_is_selected_by_name(start: Start) -> None:
    _, stderr = start(format="json")
    logger_for("s").warning("m", key="k")
    assert json.loads(stderr.getvalue())["key"] == "k"


@pytest.mark.parametrize("verbosity, shown", [(0, False), (3, False), (4, True), (9, True)])
def test_debug_lines_are_shown_from_verbosity_four(start: Start, verbosity: int, shown: bool) -> None:
    _, stderr = start(verbosity=verbosity)
    logger_for("s").debug("looked", n=1)
    assert (lines(stderr) == ['I1121 12:00:00.250000 PID s] "looked" n=1']) is shown


@pytest.mark.parametrize("verbosity, shown", [(-1, [0]), (0, [0]), (1, [0, 1]), (2, [0, 1, 2]), (9, [0, 1, 2])])
def test_info_lines_are_shown_up_to_the_verbosity(start: Start, verbosity: int, shown: list[int]) -> None:
    _, stderr = start(verbosity=verbosity)
    log = logger_for("s")
    for v in range(3):
        log.info("synced", v=v, of=v)
    assert [line.partition("PID ")[2] for line in lines(stderr)] == [f's] "synced" of={v}' for v in shown]


def test_verbosity_of_an_info_line_is_in_json_only(start: Start) -> None:
    _, stderr = start(verbosity=2, format="json")
    logger_for("s").info("synced", v=2, objects=3)
    line = json.loads(stderr.getvalue())
    assert (line["level"], line["v"], line["objects"], "v_" in line) == ("info", 2, 3, False)


def test_info_lines_of_a_source_follow_its_verbosity(start: Start) -> None:
    _, stderr = start(vmodule=(("rep*", 2),), verbosity=0)
    for source in ("replicaset", "job"):
        logger_for(source).info("synced", v=2)
    assert [line.partition("PID ")[2] for line in lines(stderr)] == ['replicaset] "synced"']


def test_the_verbosity_can_change_while_loggers_are_bound(start: Start) -> None:
    control, stderr = start()
    log = logger_for("s")
    log.debug("one")
    control.set_verbosity(4)
    log.debug("two")
    control.set_verbosity(0)
    log.debug("three")
    assert [line.partition("] ")[2] for line in lines(stderr)] == ['"two"']


def test_verbosity_can_be_set_per_source(start: Start) -> None:
    _, stderr = start(vmodule=(("rep*", 4), ("replication", 9)), verbosity=0)
    for source in ("replicaset", "replication", "job"):
        logger_for(source).debug("looked")
    assert [line.partition("PID ")[2] for line in lines(stderr)] == ['replicaset] "looked"', 'replication] "looked"']


def test_pattern_of_vmodule_never_lowers_the_verbosity(start: Start) -> None:
    _, stderr = start(vmodule=(("replicaset", 1),), verbosity=4)
    logger_for("replicaset").debug("looked")
    assert len(lines(stderr)) == 1


def test_plain_message_has_no_quotes(start: Start) -> None:
    _, stderr = start(verbosity=1)
    logger_for("kcm").info('FLAG: --v="1"', v=1, plain=True)
    assert lines(stderr)[0].endswith('PID kcm] FLAG: --v="1"')


def test_json_line_contains_the_place_of_the_call(start: Start) -> None:
    _, stderr = start(format="json", verbosity=4)
    log = logger_for("replicaset-controller")
    log.info("synced", v=2)
    log.debug("looked")
    log.error("failed", error="no")
    logging.getLogger("library").error("broken")
    found = [json.loads(line) for line in lines(stderr)]
    assert all(re.fullmatch(r"logs/test_configuration\.py:\d+", line["caller"]) for line in found)
    assert list(found[2]) == ["ts", "level", "logger", "caller", "msg", "err"]


@pytest.mark.parametrize(
    ("form", "to_stdout", "to_stderr"),
    [("text", ["debug", "info"], ["warning", "error"]), ("json", ["debug", "info", "warning"], ["error"])],
)
def test_split_stream_divides_lines_by_level(
    start: Start, form: str, to_stdout: list[str], to_stderr: list[str]
) -> None:
    start()  # saves the configuration that the fixture restores
    out, err = io.StringIO(), io.StringIO()
    settings = LogSettings(format=form, split_stream=True, verbosity=4)
    control = configure_logging(settings, now=lambda: NOON, stdout=out, stderr=err)
    for level in ("debug", "info", "warning", "error"):
        getattr(logger_for("s"), level)(f"<{level}>")
    control.close()
    assert re.findall(r"<(\w+)>", out.getvalue()) == to_stdout
    assert re.findall(r"<(\w+)>", err.getvalue()) == to_stderr


def test_buffered_lines_are_written_at_the_flush_frequency(start: Start) -> None:
    start()  # saves the configuration that the fixture restores
    out, err = io.StringIO(), io.StringIO()
    settings = LogSettings(split_stream=True, info_buffer_size=1 << 20, flush_frequency=0.01)
    control = configure_logging(settings, now=lambda: NOON, stdout=out, stderr=err)
    logger_for("s").info("kept")
    deadline = time.monotonic() + 30.0
    while not out.getvalue() and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert "kept" in out.getvalue()
    control.close()


def test_buffered_lines_are_written_when_the_log_is_closed(start: Start) -> None:
    start()  # saves the configuration that the fixture restores
    out = io.StringIO()
    settings = LogSettings(split_stream=True, info_buffer_size=1 << 20, flush_frequency=3600.0)
    control = configure_logging(settings, now=lambda: NOON, stdout=out, stderr=io.StringIO())
    logger_for("s").info("kept")
    assert out.getvalue() == ""
    control.close()
    assert "kept" in out.getvalue()
    logger_for("s").info("late")
    assert "late" in out.getvalue()


def test_an_exception_is_shown_with_its_stack(start: Start) -> None:
    _, stderr = start(format="json")
    try:
        raise KeyError("web")
    except KeyError:
        logger_for("s").exception("failed", key="a/b")
    line = json.loads(stderr.getvalue())
    assert (line["level"], line["msg"], line["key"]) == ("error", "failed", "a/b")
    assert line["stacktrace"].startswith("Traceback (most recent call last):\n")
    assert line["stacktrace"].endswith("KeyError: 'web'")


def test_log_records_of_libraries_are_formatted_alike(start: Start) -> None:
    _, stderr = start()
    library = logging.getLogger("some.library")
    library.info("hello")
    library.warning("odd %s", "thing")
    try:
        raise OSError("gone")
    except OSError:
        library.exception("broken")
    shown = lines(stderr)
    assert shown[0] == 'W1121 12:00:00.250000 PID some.library] "odd thing"'
    assert shown[1] == 'E1121 12:00:00.250000 PID some.library] "broken" stacktrace=<'
    assert shown[-2:] == ["\tOSError: gone", " >"]


def test_higher_verbosity_shows_more_log_records_of_libraries(start: Start) -> None:
    control, stderr = start(verbosity=4)
    library = logging.getLogger("some.library")
    library.info("hello")
    library.debug("details")
    control.set_verbosity(6)
    library.debug("more")
    assert [line.partition("] ")[2] for line in lines(stderr)] == ['"hello"', '"more"']


def test_warnings_of_python_are_logged(start: Start) -> None:
    _, stderr = start()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("this is old", stacklevel=1)
    assert "py.warnings]" in stderr.getvalue()
    assert "this is old" in stderr.getvalue()


def test_log_file_contains_its_severity_and_higher_ones(start: Start, tmp_path: Path) -> None:
    control, stderr = start(directory=str(tmp_path / "logs"), to_stderr=False)
    log = logger_for("s")
    for method in ("info", "warning", "error"):
        getattr(log, method)(method)
    control.close()
    assert stderr.getvalue() == ""
    held = {
        severity: re.findall(r'"(\w+)"', (tmp_path / "logs" / f"kcm.{severity}").read_text())
        for severity in ("INFO", "WARNING", "ERROR")
    }
    assert held == {"INFO": ["info", "warning", "error"], "WARNING": ["warning", "error"], "ERROR": ["error"]}
    target = (tmp_path / "logs" / "kcm.INFO").readlink().name
    assert re.fullmatch(r"kcm\..+\..+\.log\.INFO\.20251121-120000\.\d+", target)


@pytest.mark.parametrize("umask", [0, 0o277])
def test_log_files_are_private_for_any_umask(start: Start, tmp_path: Path, umask: int) -> None:
    (tmp_path / "logs").mkdir()
    before = os.umask(umask)
    try:
        start(directory=str(tmp_path / "logs"))
    finally:
        os.umask(before)
    files = [file for file in (tmp_path / "logs").iterdir() if not file.is_symlink()]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3


def test_unremovable_file_with_the_name_of_a_link_is_kept_and_reported(start: Start, tmp_path: Path) -> None:
    (tmp_path / "kcm.WARNING").mkdir()  # like another user's link in a sticky directory, it cannot be unlinked
    control, stderr = start(directory=str(tmp_path))
    logger_for("s").warning("said")
    control.close()
    (file,) = tmp_path.glob("kcm.*.log.WARNING.*")
    assert "said" in file.read_text()
    assert (tmp_path / "kcm.INFO").is_symlink()
    (warning,) = [line for line in lines(stderr) if "link to the log file cannot be made" in line]
    assert f'link="{tmp_path}/kcm.WARNING"' in warning


def test_planted_link_with_the_name_of_a_log_file_is_not_followed(start: Start, tmp_path: Path) -> None:
    start(directory=str(tmp_path))[0].close()
    (guessed,) = tmp_path.glob("kcm.*.log.INFO.*")
    guessed.unlink()
    (tmp_path / "victim").write_text("untouched\n")
    guessed.symlink_to("victim")
    control, _ = start(directory=str(tmp_path))
    logger_for("s").info("said")
    control.close()
    assert (tmp_path / "victim").read_text() == "untouched\n"
    assert (tmp_path / "kcm.INFO").readlink().name == f"{guessed.name}.1"
    assert "said" in (tmp_path / "kcm.INFO").read_text()


def test_a_directory_that_cannot_be_written_is_an_error_at_the_start(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        start(directory=str(tmp_path / "file" / "logs"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_quiet_log_shows_only_warnings_until_verbosity_is_set(start: Start, tmp_path: Path) -> None:
    control, stderr = start(quiet=True, directory=str(tmp_path))
    log = logger_for("kcm")
    log.info("one")
    log.warning("two")
    log.error("three")
    assert [line.split("] ")[1] for line in lines(stderr)] == ['"two"', '"three"']
    control.set_verbosity(0)
    log.info("four")
    assert lines(stderr)[-1].endswith('"four"')
    assert len((tmp_path / "kcm.INFO").read_text().splitlines()) == 4, "files have all"


def test_line_on_a_terminal_clears_the_previous_text(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start()  # saves the configuration that the fixture restores
    for term, head in (("xterm", "\x1b[KE1121"), ("dumb", "E1121")):
        monkeypatch.setenv("TERM", term)
        stderr = Terminal()
        control = configure_logging(LogSettings(directory=str(tmp_path)), now=lambda: NOON, stderr=stderr)
        logger_for("kcm").error("broken")
        control.close()
        assert stderr.getvalue().startswith(head)
    assert "\x1b" not in (tmp_path / "kcm.ERROR").read_text()
