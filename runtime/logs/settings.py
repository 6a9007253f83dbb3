"""Log settings. Separate from configuration.py, whose imports take long for a program that only parses flags."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

KLOG_FILE_SIZE = 1800 * 1024 * 1024  # bytes, klog's MaxSize


class LogSettings(Struct, frozen=True, kw_only=True):
    """Log settings of a process.

    format: "text" or "json".
    vmodule: patterns of sources, each with its verbosity.
    vmodule_names: further names of sources that patterns match; see vmodule.py.
    directory: directory of log files; "" for none.
    file: path of a single log file, used instead of the directory; "" for none.
    largest_file: size in bytes at which a log file is replaced; 0 for no limit.
    quiet: only warnings and errors go to standard error, until the verbosity is set.
    split_stream: lines go to standard output, and those of errors to standard error.
    info_buffer_size: bytes of lines for standard output that are kept in memory before they are written.
    flush_frequency: seconds after which kept lines are written at the latest.
    """

    format: str = "text"
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    vmodule_names: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    directory: str = ""
    file: str = ""
    largest_file: int = KLOG_FILE_SIZE
    to_stderr: bool = True
    quiet: bool = False
    split_stream: bool = False
    info_buffer_size: int = 0
    flush_frequency: float = 5.0
