"""Ctrl-C before a command is far enough to end in an orderly way."""

from __future__ import annotations

import os
import signal

HELD_BACK = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # by bin/environment.py, until here


def answer_interrupts(program: str) -> None:
    """Let SIGINT end the process with one line and 130, until the command has a handler of its own.

    To be called before anything else is imported: an import that is interrupted ends in a traceback.
    """

    def handle(number: int, _frame: object) -> None:
        os.write(2, f"{program}: interrupted\n".encode())
        os._exit(128 + number)

    signal.signal(signal.SIGINT, handle)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_BACK)
