"""The files of docs/first-controller.md are written, and its commands print what the page shows."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.e2e.pages import carry_out, commands
from tests.e2e.programs import ROOT, ending, free_port, spawn, until

PAGE = ROOT / "docs" / "first-controller.md"


def write_files(page: str, directory: Path) -> None:
    """Write each block that follows the name of a file."""
    for name, content in re.findall(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        (directory / name).write_text(content, encoding="utf-8")


@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_commands_print_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    page = PAGE.read_text(encoding="utf-8")
    write_files(page, tmp_path)
    start, export, *rest = commands(page)
    assert (start.command, export.command) == ("python greeter.py", "export KUBECONFIG=.kcm/kubeconfig")
    flags = (f"--embedded-dir={tmp_path / '.kcm'}", "--secure-port=0", "--address=127.0.0.1", f"--port={free_port()}")
    with ending(spawn([sys.executable, str(tmp_path / "greeter.py"), *flags], tmp_path / "log")) as program:
        until(lambda: "export KUBECONFIG" in program.text(), "it greets", why=program.text)
        for step in rest:
            carry_out(step, tmp_path)
