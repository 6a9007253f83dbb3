"""Guard against blocking calls: time.sleep, sockets, subprocesses and waits raise while simulated code runs.

In a simulation, a sleep takes real instead of virtual time, the response of a socket may differ from run to run, and a
wait for another thread may never end. The blocking functions are replaced by wrappers when the first World is created.
A wrapper raises only while simulated code runs on its thread, and otherwise calls the original function.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

SLEEP = "return RequeueAfter(seconds), or yield Enqueue(queue, key, after=seconds)"
SERVER = "yield commands for the API server, or `yield from call(function, …)` with a fake in simulations"
THREADS = "yield Enqueue, or let the other thread send a message"
PROCESSES = "`yield from call(function, …)`, with a fake in simulations"

# Owner, name, name in the error, and the alternative. Methods in C (Lock.acquire, SimpleQueue.get) cannot be replaced.
_CALLS: tuple[tuple[Any, str, str, str], ...] = (
    (time, "sleep", "time.sleep", SLEEP),
    *(
        (kind, name, f"{kind.__module__}.{kind.__name__}.{name}", SERVER)
        for kind, names in (
            (socket.socket, ("connect", "connect_ex", "accept", "send", "sendall", "sendto", "recv", "recv_into")),
            (ssl.SSLSocket, ("connect", "send", "sendall", "recv", "recv_into")),
        )
        for name in names
    ),
    (socket, "getaddrinfo", "socket.getaddrinfo", SERVER),
    (socket, "gethostbyname", "socket.gethostbyname", SERVER),
    (subprocess.Popen, "__init__", "subprocess.Popen", PROCESSES),
    (os, "system", "os.system", PROCESSES),
    (os, "fork", "os.fork", PROCESSES),
    # Events, queues, semaphores and futures wait by this method.
    (threading.Condition, "wait", "threading.Condition.wait", THREADS),
    (threading.Thread, "join", "threading.Thread.join", THREADS),
)


class BlockingCallError(Exception):
    """Simulated code calls a blocking function. Not an OSError, which HTTP clients would catch and retry."""


class Guard:
    """Wrappers of blocking functions, which raise BlockingCallError on one thread."""

    def __init__(self) -> None:
        self.thread = 0  # id of the thread on which they raise; 0 for none
        self._installed = False
        self._modules = 0
        self._replaced: dict[int, Callable[..., Any]] = {}  # by id of the original function of a module

    def install(self) -> None:
        """Replace the blocking functions by wrappers, also in modules that have imported them by name.

        May be called again, to replace them in modules that were imported since.
        """
        if not self._installed:
            self._installed = True
            for owner, name, called, instead in _CALLS:
                original = getattr(owner, name, None)
                if original is None:
                    continue
                guarded = self._guarded(original, called, instead)
                setattr(owner, name, guarded)
                if not isinstance(owner, type):
                    self._replaced[id(original)] = guarded
        if len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            for module in list(sys.modules.values()):
                for name, value in list(getattr(module, "__dict__", {}).items()):
                    if id(value) in self._replaced:
                        setattr(module, name, self._replaced[id(value)])

    def _guarded(self, original: Callable[..., Any], called: str, instead: str) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self.thread and self.thread == threading.get_ident():
                raise BlockingCallError(
                    f"{called} in a simulated actor: it would block all keys of its controller; instead {instead}"
                )
            return original(*args, **kwargs)

        return call


guard = Guard()  # the only instance, because it replaces functions of modules
alone = threading.RLock()  # acquired by a World that runs, because worlds on several threads share the guard


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Return a context whose body is simulated code: blocking calls raise BlockingCallError on this thread."""
    before, guard.thread = guard.thread, threading.get_ident()
    try:
        yield
    finally:
        guard.thread = before
