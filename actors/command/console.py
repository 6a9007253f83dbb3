"""Console of a run: served with the other pages, filled once the system runs, opened by a link in the greeting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from kcm.actors.app.system import ControllerSystem
from kcm.actors.console.parts import console_parts
from kcm.actors.options import Options
from kcm.runtime.serving.console.pages import Console, LinkKey

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class RunConsole(Struct):
    """Console and its way in. link: address that opens the console of an embedded cluster; "" for others."""

    console: Console
    key: LinkKey | None
    link: str = ""

    def serve_at(self, url: str) -> None:
        """Record where the console is served. url: of the last listener."""
        if self.key is not None:
            self.link = self.key.link(url)

    def fill(self, system: ControllerSystem) -> None:
        """Show a system, which need not run yet."""
        self.console.set(console_parts(system))


def open_console(options: Options, *, embeds_cluster: bool, log: FilteringBoundLogger) -> RunConsole | None:
    """Create the console; None if flags disable it."""
    if not options.diagnosis.console or not options.secure_serving.port:
        return None
    return RunConsole(Console(log=log), LinkKey() if embeds_cluster else None)
