"""`run-kcm apiserver`: the process that people start and end."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kcm.actors.app.connection import api_transport
from kcm.actors.command import apiserver
from kcm.runtime.client.api import Request


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and what it says until its greeting is over."""
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "apiserver", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("Ctrl-C"):
                break
        try:
            yield process, said
        finally:
            process.kill()


def test_it_serves_alone_until_a_signal_and_keeps_what_it_holds(tmp_path: Path) -> None:
    place = f"--embedded-dir={tmp_path / 'kcm'}"
    with serving(place, "--service-cluster-ip-range=10.7.0.0/16") as (process, said):
        found = re.search(r"serves on (\S+), without controllers[\s\S]*export KUBECONFIG=(\S+)", said)
        assert found is not None
        with api_transport(found[2]) as transport:
            path = "/api/v1/namespaces/default/services/kubernetes"
            answer = transport.request(Request(method="GET", path=path), client="test", timeout=10.0)
        assert b'"clusterIP":"10.7.0.1"' in answer.body
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (tmp_path / "kcm" / "cluster.db").exists()
    with serving(place) as (process, said):
        assert found[1] in said  # where it was
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_in_memory_it_stores_nothing(tmp_path: Path) -> None:
    with serving(f"--embedded-dir={tmp_path / 'kcm'}", "--embedded-in-memory") as (process, said):
        assert said.endswith("what it holds is gone then.\n")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert not list((tmp_path / "kcm").glob("cluster.db*"))


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("this", '"kcm apiserver" does not take any arguments, got "this"'),
        ("--hollow-nodes=3", "unknown flag: --hollow-nodes"),
        ("--embedded-port=-1", "--embedded-port -1 must be between 0 and 65535, inclusive. 0 for a free one"),
        ("--embedded-durability=most", "--embedded-durability is 'full' or 'relaxed', but got \"most\""),
        ("--logging-format=xml", 'format: Invalid value: "xml": Unsupported log format'),
        ("--service-cluster-ip-range=10.0.0.0", "--service-cluster-ip-range: "),
    ],
)
def test_a_mistake_is_named_in_one_line(
    argument: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert apiserver.main([argument]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {complaint}")


def test_help_names_its_own_flags_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert apiserver.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert "--embedded-in-memory" in said
    assert "--hollow-nodes" not in said
    assert apiserver.main(["--version"]) == 0
