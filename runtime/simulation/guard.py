"""Guard against blocking calls: they raise while a simulated actor handles a message.

In a simulation a sleep takes real time and no virtual time, the response of a socket differs from run to run, and a
wait for another thread may never end. The functions are replaced once, when the first world is created. While no
actor handles a message, and on other threads, they behave as before.
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
SERVER = "yield commands for the API server; of anything else `yield from call(function, …)`, here of a fake"
THREADS = "yield Enqueue, or have whoever is waited for send a message"
PROCESSES = "`yield from call(function, …)`, here of a fake"

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
    (
        threading.Condition,
        "wait",
        "threading.Condition.wait",
        THREADS,
    ),  # also used by events, queues, semaphores and futures
    (threading.Thread, "join", "threading.Thread.join", THREADS),
)


class BlockingCallError(Exception):
    """A reconciler waits for the world outside. No OSError, which HTTP clients would catch and retry."""


class Guard:
    """Guard against blocking calls. thread: the thread on which they raise BlockingCallError; 0 for none."""

    def __init__(self) -> None:
        self.thread = 0
        self._installed = False
        self._modules = 0
        self._replaced: dict[int, Callable[..., Any]] = {}  # by id of the original function of a module

    def install(self) -> None:
        """Replace the functions, also where a module has imported one by name."""
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
                    f"{called} in a simulated actor: it would hold up all keys of its controller; instead {instead}"
                )
            return original(*args, **kwargs)

        return call


guard = Guard()  # one per process, because it replaces functions of modules
alone = threading.RLock()  # held while a world runs, as worlds on several threads share the one guard


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Run the body as simulated code, which must not wait for the real world."""
    before, guard.thread = guard.thread, threading.get_ident()
    try:
        yield
    finally:
        guard.thread = before
