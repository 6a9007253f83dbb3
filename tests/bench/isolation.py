"""Runs a command in an environment that is the same each time, so that its counts can be compared."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Other variables (of coverage, of a debugger, of Python itself) would change the counts.
KEPT = ("HOME", "LANG", "LC_ALL", "PATH", "SYSTEMROOT", "TMPDIR", "TZ", "VIRTUAL_ENV")


def isolated(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command with a fixed hash seed and a minimal environment."""
    environment = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment |= {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        list(argv), cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
