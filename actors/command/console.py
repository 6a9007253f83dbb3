"""Console of a run: served with the other pages, filled once the system runs, opened by a link in the greeting."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.actors.app.system import ControllerSystem
from kcm.actors.console.parts import console_parts
from kcm.runtime.client.api import Transport
from kcm.runtime.client.transport import HttpTransport, request_and_wait
from kcm.runtime.faults.switches import SwitchedTransport
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.serving.console.pages import Console, LinkKey

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CLIENT = "console"  # sender of requests, in user agents
ANSWERED_WITHIN = 3.0  # seconds


class RunConsole(Struct):
    """Console and its way in.

    key: opens it by a link; None if users sign in with bearer tokens.
    link: address with the key; "" without a key, and before it is served.
    switches: faults of the embedded cluster; None for others.
    """

    console: Console
    key: LinkKey | None
    link: str = ""
    switches: SwitchedTransport | None = None

    def serve_at(self, url: str) -> None:
        """Record where the console is served. url: of the last listener."""
        if self.key is not None:
            self.link = self.key.link(url)

    def switched(self, transport: HttpTransport, clock: Clock) -> SwitchedTransport:
        """Return a transport for the system of an embedded cluster, with switches for the fault board."""
        self.switches = SwitchedTransport(transport, clock=clock)
        return self.switches

    def fill(self, system: ControllerSystem, transport: Transport | None = None) -> None:
        """Show a system, which need not run yet.

        transport: for requests of the console itself; by default that of the system, if it has one cluster.
        """
        if transport is None and not system.clusters:
            transport = system.transport
        send = None
        if transport is not None:
            send = partial(request_and_wait, transport, client=CLIENT, timeout=ANSWERED_WITHIN)
        self.console.set(console_parts(system, send=send, switches=self.switches))


def open_console(*, has_link: bool, log: FilteringBoundLogger) -> RunConsole:
    """Create a console that shows nothing yet. has_link: a key opens it."""
    return RunConsole(Console(log=log), LinkKey() if has_link else None)
