"""`run-kcm journal serve FILE`: the console over a journal, with the tables and queues of each moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kcm.actors.command.journal.history import JournalHistory
from kcm.runtime.process.termination import on_signals
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.serving.console.alone import console_alone
from kcm.runtime.serving.console.pages import Console, ConsoleParts, LinkKey
from kcm.runtime.serving.server import PageListener, ServerThread

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LOOPBACK = "127.0.0.1"


def serve(history: JournalHistory, *, port: int, log: FilteringBoundLogger, show: Callable[[str], None]) -> int:
    """Serve until a signal arrives, and return the exit code. port: 0 for any free one. Raises ServingError.

    show: receives the address.
    """
    stopping, clock = on_signals(), SystemClock()
    console, key = Console(log=log), LinkKey()
    console.set(ConsoleParts(questions={"journal": history.ask}))
    application = console_alone(console, key, now=clock.now, log=log)
    server = ServerThread([PageListener(application=application, host=LOOPBACK, port=port, flag="--port")], log=log)
    server.start()
    try:
        show(f"{history.steps} steps. Open this in a browser; Ctrl-C stops it:\n\n    {key.link(server.urls[0])}\n")
        stopping.wait(None)
    finally:
        console.close()
        server.stop()
        clock.close()
    return 0
