"""The commands run as modules, and end without a traceback if their output is closed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcm.runtime.process.standard_streams import NO_READER

ROOT = Path(__file__).parents[2]
COMMANDS = [
    ("kcm", "--help"),
    ("kcm", "--version"),
    ("kcm", "journal", "--help"),
    ("kcm", "journal", "show", "--help"),
    ("kcm", "snapshot", "--help"),
    ("kcm", "apiserver", "--help"),
    ("kcm.simulate", "--help"),
]


def run(
    *command: str, stdout: int = subprocess.PIPE, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        [sys.executable, "-P", *options, "-m", *command],
        cwd=ROOT,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_package_is_the_command() -> None:
    version = run("kcm", "--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout == run("kcm.actors.command", "--version").stdout
    unknown = run("kcm", "--no-such-flag")
    assert (unknown.returncode, unknown.stderr.splitlines()[0]) == (1, "Error: unknown flag: --no-such-flag")


@pytest.mark.parametrize(
    ("options", "command"),
    [
        *(pytest.param((), command, id=f"buffered-{' '.join(command)}") for command in COMMANDS),
        # Both ways of writing help: that of kcm and argparse.
        *(
            pytest.param(("-u",), command, id=f"unbuffered-{' '.join(command)}")
            for command in (COMMANDS[0], COMMANDS[-1])
        ),
    ],
)
def test_command_without_a_reader_ends_without_a_word(options: tuple[str, ...], command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = run(*command, stdout=writer, options=options)
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode in (NO_READER, 0), "argparse by itself says nothing of output that it could not write"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_output_that_cannot_be_written_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = run("kcm", "--version", stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr == "Error: cannot write to standard output: No space left on device\n"
