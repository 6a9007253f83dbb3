"""Notifications to the service manager that started this process: systemd, or another one with its protocol.

Source: sd_notify(3), sd_watchdog_enabled(3).
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Mapping


class ServiceManager:
    """Service manager of this process. Without one, all methods do nothing.

    environ: environment of the process. NOTIFY_SOCKET is the address that notifications go to, WATCHDOG_USEC the number
        of microseconds after which the service manager ends a process that has sent no sign of life; WATCHDOG_PID, if
        it is set, the process that this applies to.
    now: monotonic time in seconds.
    """

    def __init__(self, environ: Mapping[str, str], *, now: Callable[[], float]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._now = now
        self._status = ""
        self._is_ready = False
        self._alive_every = _half_of_watchdog(environ) if self._address else 0.0
        self._alive_at = 0.0

    def update(self, status: str, *, is_ready: bool) -> None:
        """Report the status, if it has changed, and a sign of life, if it is due. May be called often.

        status: one line for `systemctl status`.
        is_ready: whether the start has finished; reported once.
        """
        if not self._address:
            return
        lines = []
        if is_ready and not self._is_ready:
            self._is_ready = True
            lines.append("READY=1")
        if status != self._status:
            self._status = status
            lines.append("STATUS=" + " ".join(status.split()))
        if self._alive_every and self._now() >= self._alive_at:
            self._alive_at = self._now() + self._alive_every
            lines.append("WATCHDOG=1")
        if lines:
            self._send(lines)

    def stopping(self, status: str) -> None:
        """Report that the process is shutting down."""
        self._send(["STOPPING=1", f"STATUS={status}"])

    def _send(self, lines: list[str]) -> None:
        if not self._address:
            return
        # The service manager may have gone, or be slow to read. Neither is a reason to stop or to wait.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            # "@" stands for the NUL byte of an abstract address.
            address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
            sender.sendto("\n".join(lines).encode(), address)


def _half_of_watchdog(environ: Mapping[str, str]) -> float:
    """Return how often to send a sign of life, in seconds; 0.0 for never."""
    try:
        microseconds = int(environ.get("WATCHDOG_USEC", "0"))
        process = int(environ.get("WATCHDOG_PID") or os.getpid())
    except ValueError:
        return 0.0
    return microseconds / 2e6 if microseconds > 0 and process == os.getpid() else 0.0
