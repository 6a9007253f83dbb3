"""Log settings. Separate from configuration.py, whose imports take long for a program that only parses flags."""

from __future__ import annotations

from msgspec import Struct


class LogSettings(Struct, frozen=True, kw_only=True):
    """Log settings of a process.

    format: "text" or "json".
    vmodule: patterns of sources, each with its verbosity.
    directory: directory of log files; "" for none.
    quiet: only warnings and errors go to standard error, until the verbosity is set.
    """

    format: str = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    directory: str = ""
    to_stderr: bool = True
    quiet: bool = False
