"""Processes of programs: start, conditions, end."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0  # seconds that a condition may take on a busy machine before the test fails
GLANCE = 0.1  # least seconds between two evaluations of a condition
CONTROLLERS = ("replicationcontroller-controller", "replicaset-controller", "deployment-controller")
OF_SERVICES = ("endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller")


def until(
    condition: Callable[[], T | None], what: str, *, within: float = PATIENCE, why: Callable[[], str] = lambda: ""
) -> T:
    """Return the value of the condition as soon as it is true, or fail the test with the text of `why`.

    The longer it waits, the less often it evaluates the condition, which may start a process each time.
    """
    began = time.monotonic()
    while True:
        answer = condition()
        if answer:
            return answer
        waited = time.monotonic() - began
        assert waited < within, f"not within {within:g} s: {what}\n{why()}"
        time.sleep(max(GLANCE, min(waited / 10, 1.0)))


def stays(condition: Callable[[], object], what: str, *, seconds: float) -> None:
    """Fail the test if the condition becomes false within this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"no more: {what}"
        time.sleep(GLANCE)


def free_port() -> int:
    """Return a free port outside the range of ports that listeners on port 0 get, as programs under test are."""
    while True:
        port = random.SystemRandom().randrange(15_000, 30_000)
        with socket.socket() as listening, suppress(OSError):
            listening.bind(("127.0.0.1", port))
            return port


@dataclass(frozen=True, slots=True)
class Program:
    """Running process. output: file of its stdout and stderr."""

    process: subprocess.Popen[bytes]
    output: Path

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def descendants(self) -> list[int]:
        """Return the process ids of its children and their children."""
        listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        parents = {int(pid): int(parent) for pid, parent in map(str.split, listing.splitlines())}
        family = [self.process.pid]
        for member in family:
            family += [pid for pid, parent in parents.items() if parent == member]
        return family[1:]

    def kill(self) -> None:
        """Kill it and all its descendants with SIGKILL, at the same time."""
        for pid in (self.process.pid, *self.descendants()):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def terminate(self, within: float = PATIENCE) -> int:
        """Send SIGTERM and return the exit code."""
        if self.running:
            self.process.terminate()
        return self.process.wait(within)


def spawn(
    arguments: list[str],
    output: Path,
    *,
    environ: dict[str, str] | None = None,
    stdin: int | None = None,
    cwd: Path = ROOT,
) -> Program:
    """Start a program in a process group of its own, with its output in the file."""
    with output.open("wb") as stream:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL if stdin is None else stdin,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environ if environ is not None else dict(os.environ),
            cwd=cwd,
            start_new_session=True,
        )
    return Program(process, output)


@contextmanager
def ending(program: Program) -> Iterator[Program]:
    """End the program at the end of the block."""
    try:
        yield program
    finally:
        if program.running:
            program.process.terminate()
            try:
                program.process.wait(20.0)
            except subprocess.TimeoutExpired:
                program.kill()
        if program.process.stdin is not None:
            program.process.stdin.close()


@dataclass(frozen=True, slots=True)
class Manager:
    """Running controller manager. url: of its plain HTTP pages."""

    program: Program
    url: str

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page; status 0 if the connection fails."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=10.0) as response:
                return int(response.status), response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def healthy(self) -> bool:
        return self.get("/healthz")[0] == 200

    def metric(self, family: str, **labels: str) -> float:
        """Return the sum of the family's samples that have all these labels."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        samples = [
            line for line in self.get("/metrics")[1].splitlines() if line.startswith((f"{family}{{", f"{family} "))
        ]
        return sum(float(line.rsplit(" ", 1)[1]) for line in samples if all(label in line for label in wanted))

    def working(self) -> bool:
        """Report whether it is healthy and all controllers have started."""
        text = self.program.text()
        return all(f'"Caches are synced" controller="{name}"' in text for name in CONTROLLERS) and self.healthy()


def run_kcm(output: Path, *flags: str) -> Manager:
    """Start bin/run-kcm without its launcher, in this environment. It serves plain HTTP on a free port.

    It logs with --v=2, unless the flags name another verbosity: tests wait for lines of that verbosity.
    """
    port = free_port()
    if not any(flag.startswith(("--v=", "-v")) for flag in flags):
        flags = ("--v=2", *flags)
    serving = ("--secure-port=0", "--address=127.0.0.1", f"--port={port}")
    program = spawn([sys.executable, "-P", "-m", "kcm.actors.command", *serving, *flags], output)
    return Manager(program, f"http://127.0.0.1:{port}")


@contextmanager
def managing(output: Path, *flags: str) -> Iterator[Manager]:
    """Start a manager, wait until it works, and end it at the end of the block."""
    manager = run_kcm(output, *flags)
    with ending(manager.program):
        until_working(manager)
        yield manager


def until_working(manager: Manager) -> None:
    def ready_or_dead() -> bool:
        assert manager.program.running, f"the manager ended:\n{manager.program.text()}"
        return manager.working()

    until(ready_or_dead, "the manager works", why=manager.program.text)


@contextmanager
def hollow_nodes(kubeconfig: Path, output: Path, *, nodes: int = 3, volumes: bool = False) -> Iterator[Program]:
    """Run hollow nodes with kubelets and a scheduler for a server. volumes: with a provisioner."""
    flags = (f"--kubeconfig={kubeconfig}", f"--nodes={nodes}", *(("--volumes",) if volumes else ()))
    program = spawn([sys.executable, "-P", "-m", "kcm.actors.hollow.process", *flags], output, stdin=subprocess.PIPE)
    with ending(program):
        yield program
