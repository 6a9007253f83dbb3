from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kcm.runtime.logs.sinks import Sink
from kcm.runtime.process.standard_streams import write_or_forget

ROOT = Path(__file__).parents[3]


def pipe_without_reader() -> int:
    reading, writing = os.pipe()
    os.close(reading)
    return writing


def test_stream_without_a_reader_is_replaced() -> None:
    with open(pipe_without_reader(), "w", encoding="utf-8") as stream:
        write_or_forget(stream, "lost")
        assert os.path.samestat(os.fstat(stream.fileno()), os.stat(os.devnull))
        write_or_forget(stream, "lost as well")


def test_logging_does_not_fail_without_a_reader() -> None:
    with open(pipe_without_reader(), "w", encoding="utf-8") as stderr:
        sink = Sink(stderr=stderr, directory="", now=lambda: 0.0)
        sink.write("info", "first")
        sink.write("info", "second")
        assert os.path.samestat(os.fstat(stderr.fileno()), os.stat(os.devnull))


def test_full_disk_loses_only_lines_of_the_log_file(tmp_path: Path) -> None:
    sink = Sink(stderr=None, directory=str(tmp_path), now=lambda: 0.0)
    (info, *_) = sink._files
    disk, full = os.dup(info.descriptor), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, info.descriptor)
    sink.write("info", "late or lost")
    os.dup2(disk, info.descriptor)
    os.close(disk)
    os.close(full)
    sink.write("info", "there is room again")
    sink.close()
    assert (tmp_path / "kcm.INFO").read_text(encoding="utf-8").endswith("there is room again\n")


def test_closed_standard_streams_are_opened_on_the_null_device(tmp_path: Path) -> None:
    program = """
import os, sys
from kcm.runtime.process.standard_streams import open_closed_streams
open_closed_streams()
print("lost")
print("lost", file=sys.stderr, flush=True)
ends = [os.path.samestat(os.fstat(number), os.stat(os.devnull)) for number in (0, 1, 2)]
open(sys.argv[1], "w").write(repr(ends))
"""
    answer = tmp_path / "answer"
    closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", program, str(answer)]
    assert subprocess.run(closed, cwd=ROOT, check=False).returncode == 0
    assert answer.read_text() == "[True, True, True]"
