"""Settings of logging, apart from configuration.py, whose imports are too many for a program that only reads flags."""

from __future__ import annotations

from protocols.late_methods import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """format: "text" or "json". vmodule: (pattern over sources, verbosity). directory: of log files; "" for none.

    quiet: only warnings and errors go to standard error, until another verbosity is asked for.
    """

    format: str = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    directory: str = ""
    to_stderr: bool = True
    quiet: bool = False
