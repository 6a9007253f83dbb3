"""python -m kcm.actors.command, python -m kcm, and the script run-kcm."""

from __future__ import annotations

import gc

gc.disable()  # what is imported stays; collect_rarely() lets it begin once there is work

from kcm.runtime.process.interrupts import answer_interrupts  # noqa: E402

answer_interrupts("kcm")  # the imports take a while

import sys  # noqa: E402

from kcm.actors.command import run_kcm  # noqa: E402
from kcm.runtime.process.standard_streams import open_closed_streams, printing  # noqa: E402


def main() -> int:
    """The whole life of the process; returns its exit code."""
    return printing(run_kcm.main)


if __name__ == "__main__":
    open_closed_streams()
    sys.exit(main())
