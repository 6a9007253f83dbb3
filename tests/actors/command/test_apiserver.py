"""The process of `run-kcm apiserver`."""

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
    """Run `run-kcm apiserver`. Yields the process, and its output up to the end of the greeting."""
    command = [sys.executable, "-P", "-m", "kcm.actors.command", "apiserver", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        greeting = ""
        for line in process.stdout:
            greeting += line
            if line.startswith("Press Ctrl-C"):
                break
        try:
            yield process, greeting
        finally:
            process.kill()


def test_api_server_serves_until_a_signal_and_stores_its_objects(tmp_path: Path) -> None:
    place = f"--embedded-dir={tmp_path / 'kcm'}"
    with serving(place, "--service-cluster-ip-range=10.7.0.0/16") as (process, greeting):
        found = re.search(r"serves on (\S+), without controllers[\s\S]*export KUBECONFIG=(\S+)", greeting)
        assert found is not None
        with api_transport(found[2]) as transport:
            path = "/api/v1/namespaces/default/services/kubernetes"
            answer = transport.request(Request(method="GET", path=path), client="test", timeout=10.0)
        assert b'"clusterIP":"10.7.0.1"' in answer.body
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert (tmp_path / "kcm" / "cluster.db").exists()
    with serving(place) as (process, greeting):
        assert found[1] in greeting  # the same address
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_api_server_in_memory_stores_nothing(tmp_path: Path) -> None:
    with serving(f"--embedded-dir={tmp_path / 'kcm'}", "--embedded-in-memory") as (process, greeting):
        assert greeting.endswith("The data is deleted then.\n")
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
def test_invalid_argument_is_reported_in_one_line(
    argument: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert apiserver.main([argument]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"Error: {complaint}")


def test_help_lists_only_flags_of_the_api_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert apiserver.main(["--help"]) == 0
    printed = capsys.readouterr().out
    assert "--embedded-in-memory" in printed
    assert "--hollow-nodes" not in printed
    assert apiserver.main(["--version"]) == 0
