"""Buffered output, and the rotation of log files."""

from __future__ import annotations

import io
import os
from itertools import count
from pathlib import Path

import pytest

from kcm.runtime.logs.sinks import BufferedOutput, Sink


def test_buffer_is_written_before_a_line_that_does_not_fit() -> None:
    stream = io.StringIO()
    output = BufferedOutput(stream, 8)
    written = []
    for line in ("abc\n", "def\n", "g\n", "longer than the buffer\n", "h\n"):
        output.write(line)
        written.append(stream.getvalue())
    assert written == ["", "", "abc\ndef\n", "abc\ndef\ng\nlonger than the buffer\n", written[3]]
    output.flush()
    assert stream.getvalue().endswith("\nh\n")


@pytest.mark.parametrize("size", [0, -3])
def test_lines_are_written_at_once_without_a_buffer(size: int) -> None:
    stream = io.StringIO()
    BufferedOutput(stream, size).write("a\n")
    assert stream.getvalue() == "a\n"


def test_full_log_file_has_a_successor_to_which_the_link_points(tmp_path: Path) -> None:
    sink = Sink(stderr=None, directory=str(tmp_path), now=count(0.0, 60.0).__next__, largest=12)
    for line in ("first", "second", "third"):
        sink.write("info", line)
    sink.close()
    files = sorted(file.name for file in tmp_path.glob("kcm.*.log.INFO.*"))
    assert [(tmp_path / name).read_text() for name in files] == ["first\n", "second\n", "third\n"]
    assert (tmp_path / "kcm.INFO").readlink().name == files[-1]
    assert (tmp_path / "kcm.INFO").read_text() == "third\n"


def test_full_single_log_file_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("before\n")
    sink = Sink(stderr=None, directory="", file=str(path), now=lambda: 0.0, largest=20)
    sink.write("error", "first")
    assert path.read_text() == "before\nfirst\n", "an existing file is continued, with each line once"
    sink.write("info", "second")
    assert path.read_text() == "second\n"
    sink.close()


def test_file_truncated_by_logrotate_is_continued_at_its_start(tmp_path: Path) -> None:
    sink = Sink(stderr=None, directory=str(tmp_path), now=lambda: 0.0)
    sink.write("info", "first")
    os.truncate(tmp_path / "kcm.INFO", 0)
    sink.write("info", "second")
    sink.close()
    assert (tmp_path / "kcm.INFO").read_bytes() == b"second\n"


def test_full_log_file_is_continued_if_its_successor_cannot_be_created(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    sink = Sink(stderr=None, directory=str(directory), now=lambda: 0.0, largest=8)
    sink.write("info", "first")
    kept = (directory / "kcm.INFO").resolve()
    directory.rename(tmp_path / "moved")
    sink.write("info", "second")
    sink.close()
    assert (tmp_path / "moved" / kept.name).read_text() == "first\nsecond\n"
