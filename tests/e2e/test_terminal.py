"""Output of run-kcm on a terminal of 80 columns and 24 lines."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.programs import PATIENCE, ROOT, ending, run_kcm, until
from tests.e2e.scenarios import until_status, workload

ROWS, COLUMNS = 24, 80


class Terminal:
    """A program on a terminal, as far as it goes: line feeds, carriage returns and `erase to the right`."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self.lines, self._column, self._rest = [""], 0, ""

    def read(self, seconds: float) -> None:
        """Show the output of this time, or until the process ends."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([self._descriptor], [], [], min(left, 0.1))[0]:
                if self.process.poll() is not None:
                    return
                continue
            try:
                written = os.read(self._descriptor, 65536)
            except OSError:  # Linux: the other end is closed
                return
            self._show(written.decode())

    def screen(self) -> list[str]:
        """Return the visible lines."""
        return self.lines[-ROWS:]

    def until(self, text: str, *, scrolled: bool = False) -> list[str]:
        """Wait for a text. scrolled: accept it above the visible lines."""
        deadline = time.monotonic() + PATIENCE
        while not any(text in line for line in (self.lines if scrolled else self.screen())):
            assert time.monotonic() < deadline, "\n".join(self.lines)
            assert self.process.poll() is None, "\n".join(self.lines)
            self.read(0.02)  # soon: what comes next may depend on it
        return self.screen()

    def _show(self, text: str) -> None:
        for part in re.findall("\x1b\\[K|[^\x1b]", text):
            if part == "\n":
                self.lines.append("")
            elif part == "\r":
                self._column = 0
            elif part == "\x1b[K":
                self.lines[-1] = self.lines[-1][: self._column]
            else:
                line = self.lines[-1]
                self.lines[-1] = line[: self._column] + part + line[self._column + 1 :]
                self._column += 1


@contextmanager
def on_terminal(*flags: str) -> Iterator[Terminal]:
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kcm.actors.command", "--secure-port=0", *flags],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(its)
    terminal = Terminal(process, ours)
    try:
        yield terminal
    finally:
        if process.poll() is None:
            process.terminate()
            terminal.read(20.0)  # it cannot end before its output is read
            try:
                process.wait(20.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        os.close(ours)


def test_the_greeting_stays_on_the_screen_and_comes_when_the_nodes_are_ready(tmp_path: Path) -> None:
    own = f"--embedded-dir={tmp_path / 'kcm'}"
    with on_terminal(own, "--apply=examples/nginx-rc.yml") as terminal:
        terminal.until("export KUBECONFIG=")
        nodes = Kubectl(Api(tmp_path / "kcm" / "kubeconfig"), "default").run("get", "nodes", "--no-headers")
        assert [line.split()[1] for line in nodes.stdout.splitlines()] == ["Ready"] * 3
        screen = terminal.until("3 nodes (3 ready) · 2 pods (2 ready) · 1 replication controller")
        assert screen[0].startswith("The embedded cluster serves on https://127.0.0.1:")
        assert [line for line in screen if re.match(r"[IWE]\d{4} ", line)] == []
        assert screen[-1] == "3 nodes (3 ready) · 2 pods (2 ready) · 1 replication controller"
        terminal.process.send_signal(signal.SIGINT)
        terminal.read(PATIENCE)
        assert terminal.process.wait(PATIENCE) == 0
        assert terminal.screen()[-1] == ""


def test_information_is_shown_on_a_terminal_that_asks_for_it(tmp_path: Path) -> None:
    with on_terminal(f"--embedded-dir={tmp_path / 'kcm'}", "--hollow-nodes=0", "--v=0") as terminal:
        terminal.until("export KUBECONFIG=", scrolled=True)
        terminal.until('"Successfully acquired lease"', scrolled=True)
        logged = [line for line in terminal.lines[:-1] if re.match(r"[IWE]\d{4} ", line)]
        assert [line for line in logged if not re.search(r'("|=\S+)$', line)] == [], "tails of the live line"


def test_ctrl_c_before_the_work_is_one_line(tmp_path: Path) -> None:
    with on_terminal(f"--embedded-dir={tmp_path / 'kcm'}") as terminal:
        terminal.until("starting an API server in ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.read(PATIENCE)
        assert terminal.process.wait(PATIENCE) == 130
        assert terminal.screen() == ["kcm: interrupted", ""]


def test_error_is_one_line_without_log_prefix(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yml"
    bad.write_text("a: [1,")
    with on_terminal(f"--embedded-dir={tmp_path / 'kcm'}", f"--apply={bad}") as terminal:
        terminal.read(PATIENCE)
        assert terminal.process.wait(PATIENCE) == 1
        assert terminal.screen()[0].startswith(f"Error: {bad}:2:1: not YAML: ")  # libyaml: the end of the file
        assert terminal.screen()[1:] == [""]


def test_a_server_that_does_not_answer_is_named_at_once() -> None:
    with on_terminal("--master=http://127.0.0.1:1") as terminal:
        terminal.until('"waiting for the API server" server="http://127.0.0.1:1"')
        screen = terminal.until("s more for the API server: ")
        assert screen[-1].startswith("waiting ")


def test_second_manager_names_the_leader_that_it_waits_for(tmp_path: Path) -> None:
    first = run_kcm(tmp_path / "log", f"--embedded-dir={tmp_path / 'kcm'}", "--hollow-nodes=0")
    with ending(first.program):
        until(lambda: '"Successfully acquired lease"' in first.program.text(), "it leads", why=first.program.text)
        with on_terminal(f"--kubeconfig={tmp_path / 'kcm' / 'kubeconfig'}") as terminal:
            screen = terminal.until("standing by: ")
            assert any(line.startswith("Working on https://127.0.0.1:") for line in screen)
            assert re.match(r"standing by: the Lease expires in \d+ s unless renewed; held by \S+$", screen[-1])


def test_work_resumes_at_once_after_a_kill(tmp_path: Path) -> None:
    own = f"--embedded-dir={tmp_path / 'kcm'}"
    first = run_kcm(tmp_path / "first.log", own, "--hollow-nodes=0")
    with ending(first.program):
        until(lambda: '"Successfully acquired lease"' in first.program.text(), "it leads", why=first.program.text)
        before = Api(tmp_path / "kcm" / "kubeconfig").url
        os.kill(first.program.process.pid, signal.SIGKILL)  # what it started ends by itself
        first.program.process.wait()
        second = run_kcm(tmp_path / "second.log", own)
        with ending(second.program):
            until(
                lambda: '"Successfully acquired lease"' in second.program.text(),
                "it leads again",
                why=second.program.text,
            )
            tried, led = (
                moment(second.program.text(), what) for what in ("Attempting to acquire", "Successfully acquired lease")
            )
            assert led - tried < 10.0, "the Lease of the dead runs out after 15 s"
            kubectl = Kubectl(Api(tmp_path / "kcm" / "kubeconfig"), "default")
            assert kubectl.api.url == before
            kubectl.apply(workload("ReplicaSet", "web", 1))
            until_status(kubectl, "apps/v1/replicasets", "web", replicas=1, readyReplicas=1)


def moment(log: str, what: str) -> float:
    """Return the time of a log line in seconds."""
    found = re.search(rf'^I\d{{4}} (\S+) .*"{what}', log, re.MULTILINE)
    assert found is not None, log
    return (datetime.strptime(found[1], "%H:%M:%S.%f") - datetime(1900, 1, 1)).total_seconds()  # noqa: DTZ001, DTZ007
