"""Handling of Ctrl-C while a command starts."""

from __future__ import annotations

import os
import signal

HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # blocked by bin/environment.py until here


def answer_interrupts(program: str) -> None:
    """Let SIGINT end the process with one line and exit code 130, until the command has its own handler.

    Must be called before all other imports: an interrupted import ends with a traceback.
    """

    def handle(number: int, _frame: object) -> None:
        os.write(2, f"{program}: interrupted\n".encode())
        os._exit(128 + number)

    signal.signal(signal.SIGINT, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
