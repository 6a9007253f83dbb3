"""The commands in README.md succeed as they are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.e2e.kubectl import Api
from tests.e2e.programs import PATIENCE, ROOT, ending, run_kcm, until


def lines_under(heading: str) -> list[str]:
    """Return the lines of code in a section, without empty lines and comments."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.split(r"^##+ ", text.partition(f"## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    code = [line.partition("# ")[0].strip() for line in section.splitlines() if line.startswith("    ")]
    return [line for line in code if line]


def follow(heading: str, start: list[str], kubectl: list[str], directory: Path) -> str:
    """Run the commands of a section until one fails; return the output."""
    manager = run_kcm(directory / "log", f"--embedded-dir={directory / '.kcm'}", *start)
    with ending(manager.program):
        until(lambda: "export KUBECONFIG" in manager.program.text(), "it greets", why=manager.program.text)
        (directory / "examples").symlink_to(ROOT / "examples")
        done = subprocess.run(
            ["sh", "-e", "-x", "-c", "\n".join(kubectl)],
            cwd=directory,
            env={**os.environ, "PWD": str(directory)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{heading}:\n{done.stdout}"
        assert Api(directory / ".kcm" / "kubeconfig").alive()
        return done.stdout


def test_commands_of_the_first_steps_succeed(tmp_path: Path) -> None:
    output = follow("Try it", ["--apply", "examples/nginx-rc.yml"], lines_under("Try it"), tmp_path)
    assert 'deployment "redis" successfully rolled out' in output


@pytest.mark.slow
def test_nodes_fail_by_one_annotation(tmp_path: Path) -> None:
    start, *kubectl = lines_under("Let nodes fail")
    output = follow("Let nodes fail", shlex.split(start)[1:], kubectl, tmp_path)
    assert len(re.findall(r"^hollow-node-[02] +NotReady .* zone-a$", output, re.MULTILINE)) == 2
    assert len(re.findall(r"^hollow-node-1 +Ready .* zone-b$", output, re.MULTILINE)) == 1
    assert len(re.findall("^node/hollow-node-. condition met$", output, re.MULTILINE)) == 2 + 3
