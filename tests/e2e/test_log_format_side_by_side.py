"""Log lines of kube-controller-manager and kcm: keys of JSON, and the streams with --log-…-split-stream.

Neither program reaches a server, so both log their start and end with an error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.programs import ROOT
from tests.e2e.real_server import binaries
from tests.e2e.test_real_command_line import NOWHERE

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

OURS = [sys.executable, "-P", "-m", "kcm.actors.command"]
SPLIT = "--feature-gates=LoggingAlphaOptions=true"
ADDED = {"level"}  # keys that Kubernetes does not write


@pytest.fixture(scope="module")
def real() -> list[str]:
    assets = binaries()
    if assets is None or not (assets / "kube-controller-manager").exists():
        pytest.skip("there is no kube-controller-manager: KUBEBUILDER_ASSETS names the directory with it")
    return [str(assets / "kube-controller-manager")]


def run(command: list[str], directory: Path, *flags: str) -> tuple[str, str]:
    """Run the program until it fails, and return its standard output and standard error."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_SERVICE")}
    given = [f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=false", *flags]
    done = subprocess.run(
        [*command, *given], capture_output=True, text=True, check=False, timeout=120, env=environ, cwd=ROOT
    )
    assert done.returncode == 1
    return done.stdout, done.stderr


def json_lines(text: str) -> dict[str, dict[str, Any]]:
    """Return the first line with each message."""
    lines: dict[str, dict[str, Any]] = {}
    for line in map(json.loads, text.splitlines()):
        lines.setdefault(line["msg"], line)
    return lines


def test_json_lines_have_the_keys_of_upstream_in_its_order(real: list[str], tmp_path: Path) -> None:
    theirs = json_lines(run(real, tmp_path, "--logging-format=json", "--v=1")[1])
    ours = json_lines(run(OURS, tmp_path, "--logging-format=json", "--v=1")[1])
    for message in ("Starting", "command failed"):
        keys = list(theirs[message])
        assert [key for key in ours[message] if key not in ADDED][: len(keys)] == keys, message
        assert ours[message].get("v") == theirs[message].get("v")
        for found in (theirs[message], ours[message]):
            assert isinstance(found["ts"], float)
            assert re.fullmatch(r"[^/]+/[^/]+\.(?:go|py):\d+", found["caller"])
    assert all(set(line) >= {"ts", "caller", "msg"} for line in (*theirs.values(), *ours.values()))


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("size", ["0", "64Ki"])
def test_split_stream_divides_lines_as_upstream(real: list[str], tmp_path: Path, form: str, size: str) -> None:
    flags = (
        SPLIT,
        f"--logging-format={form}",
        f"--log-{form}-split-stream",
        f"--log-{form}-info-buffer-size={size}",
        "--log-flush-frequency=1h",
    )
    for command in (real, OURS):
        out, err = run(command, tmp_path, *flags)
        assert "Starting" in out, "also from a buffer, at the end"
        assert "Starting" not in err
        assert "command failed" in err
        assert "command failed" not in out
        if form == "text":
            assert {line[0] for line in out.splitlines()} == {"I"}
            assert "I" not in {line[0] for line in err.splitlines()}
