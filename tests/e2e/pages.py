"""Runner of the commands on a page of docs/, which compares their output with that on the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep

from tests.e2e.programs import GLANCE, PATIENCE, ROOT, ending, run_kcm, until

MOST_PAUSE = 1.6  # seconds between two attempts
ANY = "..."  # a line of the page that stands for any lines
LOOKS = (
    "kubectl get",
    "kubectl describe",
    "kubectl top",
    "kubectl events",
)  # commands that are repeated until their output is that of the page

# What differs each time.
_DRAWN = [
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"(?<=-)\d{8}\b"), "MINUTE"),
    (re.compile(r"(?<=-)[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "DRAWN"),
    (re.compile(r"(?<!\S)(\d+[smhd]){1,2}( ago)?(?!\S)"), "AGE"),
    (re.compile(r"AGE \(x\d+ over AGE\)"), "AGE"),
    (re.compile(r"(?<=passed in )[\d.]+s( \([\d:]+\))?"), "AGE"),
    (re.compile(r"\s+"), " "),
]


@dataclass(frozen=True, slots=True)
class Example:
    """Command of a page with its output."""

    command: str
    output: tuple[str, ...]


def commands(page: str) -> list[Example]:
    """Return the commands of all blocks of the page, in their order."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for text in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = text.replace("\\\n", " ").partition("\n")
            found.append(Example(command, tuple(output.splitlines())))
    return found


def plain(line: str) -> str:
    """Return the line without what differs each time."""
    for pattern, name in _DRAWN:
        line = pattern.sub(name, line)
    return line.strip()


def differences(step: Example, printed: str) -> str:
    """Return how the output differs, or "". The order of lines is ignored, as it is that of drawn names."""
    wanted = sorted(plain(line) for line in step.output if line.strip() and line != ANY)
    found = sorted(plain(line) for line in printed.splitlines() if line.strip())
    missing = [line for line in wanted if wanted.count(line) > found.count(line)]
    if missing or (ANY not in step.output and wanted != found):
        return f"$ {step.command}\n{printed}\ninstead of\n" + "\n".join(step.output)
    return ""


def check_page(name: str, directory: Path) -> None:
    """Run docs/NAME, which begins with bin/run-kcm, in a directory."""
    start, export, *rest = commands((ROOT / "docs" / name).read_text(encoding="utf-8"))
    program, *flags = shlex.split(start.command)
    assert (program, export.command) == ("bin/run-kcm", "export KUBECONFIG=.kcm/kubeconfig")
    (directory / "examples").symlink_to(ROOT / "examples")
    manager = run_kcm(directory / "log", f"--embedded-dir={directory / '.kcm'}", *flags)
    with ending(manager.program):
        until(lambda: "export KUBECONFIG" in manager.program.text(), "it greets", why=manager.program.text)
        for step in rest:
            carry_out(step, directory)


def carry_out(step: Example, directory: Path) -> None:
    deadline, pause = monotonic() + (PATIENCE if step.command.startswith(LOOKS) else 0.0), GLANCE
    while wrong := differences(step, run(step.command, directory)):
        assert monotonic() < deadline, wrong
        sleep(pause)  # growing: each attempt starts a process
        pause = min(2 * pause, MOST_PAUSE)


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
