"""docs/tour.md, run from top to bottom: each command prints what the page says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

import pytest

from tests.e2e.running import GLANCE, PATIENCE, ROOT, ending, run_kcm, until

PAGE = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
ANY = "..."  # a line of the page that stands for any lines
LOOKS = ("kubectl get", "kubectl describe")  # commands that may be repeated until they print what the page says

# What differs each time.
_DRAWN = [
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "DRAWN"),
    (re.compile(r"(?<!\S)(\d+[smhd]){1,2}( ago)?(?!\S)"), "AGE"),
    (re.compile(r"AGE \(x\d+ over AGE\)"), "AGE"),
    (re.compile(r"\s+"), " "),
]


@dataclass(frozen=True, slots=True)
class Said:
    """A command of the page, and what it is to print."""

    command: str
    output: tuple[str, ...]


def commands(page: str) -> list[Said]:
    """Of all blocks of the page, in their order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = one.replace("\\\n", " ").partition("\n")
            found.append(Said(command, tuple(output.splitlines())))
    return found


def plain(line: str) -> str:
    """Without what differs each time."""
    for pattern, name in _DRAWN:
        line = pattern.sub(name, line)
    return line.strip()


def differences(said: Said, printed: str) -> str:
    """What is wrong with it; "" if nothing. The order of lines is that of names, which are drawn."""
    wanted = sorted(plain(line) for line in said.output if line.strip() and line != ANY)
    found = sorted(plain(line) for line in printed.splitlines() if line.strip())
    missing = [line for line in wanted if wanted.count(line) > found.count(line)]
    if missing or (ANY not in said.output and wanted != found):
        return f"$ {said.command}\n{printed}\ninstead of\n" + "\n".join(said.output)
    return ""


def test_the_tour_goes_as_the_page_says(tmp_path: Path) -> None:
    start, export, *rest = commands(PAGE)
    program, *flags = shlex.split(start.command)
    assert (program, export.command) == ("bin/run-kcm", "export KUBECONFIG=.kcm/kubeconfig")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    manager = run_kcm(tmp_path / "log", f"--embedded-dir={tmp_path / '.kcm'}", *flags)
    with ending(manager.program):
        until(lambda: "export KUBECONFIG" in manager.program.text(), "it greets", why=manager.program.text)
        for said in rest:
            carry_out(said, tmp_path)


def carry_out(said: Said, directory: Path) -> None:
    deadline = monotonic() + (PATIENCE if said.command.startswith(LOOKS) else 0.0)
    while wrong := differences(said, run(said.command, directory)):
        assert monotonic() < deadline, wrong
        sleep(GLANCE)


def run(command: str, directory: Path) -> str:
    return subprocess.run(
        ["sh", "-c", command],
        cwd=directory,
        env={**os.environ, "KUBECONFIG": str(directory / ".kcm" / "kubeconfig")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    ).stdout


@pytest.mark.parametrize(
    ("output", "printed", "right"),
    [
        (["NAME   AGE", "a-x2w4k   9s"], "NAME      AGE\na-6m6g7   1m10s\n", True),
        (["a 10.96.0.1"], "a 100.64.0.2\n", True),
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
def test_what_is_drawn_may_differ_and_nothing_else(output: list[str], printed: str, right: bool) -> None:
    assert (differences(Said("kubectl get", tuple(output)), printed) == "") is right
