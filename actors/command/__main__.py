"""Entry point of run-kcm, python -m kcm and python -m kcm.actors.command."""

from __future__ import annotations

import gc

gc.disable()  # imported modules stay; collect_rarely() enables it before the work

from kcm.runtime.process.interrupts import answer_interrupts  # noqa: E402

answer_interrupts("kcm")  # the imports take a while

import sys  # noqa: E402

from kcm.actors.command import run_kcm  # noqa: E402
from kcm.runtime.process.standard_streams import open_closed_streams, printing  # noqa: E402


def main() -> int:
    """Run the process, and return its exit code."""
    return printing(run_kcm.main)


if __name__ == "__main__":
    open_closed_streams()
    sys.exit(main())
