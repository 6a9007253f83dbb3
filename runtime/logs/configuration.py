"""Log configuration: structlog as the API, klog's text or JSON as the format, to standard error and files.

    control = configure_logging(LogSettings(verbosity=2), now=clock.now)    # once, in the command
    log = logger_for("replicaset-controller", incarnation=3)
    log.info("pod created", key="default/web", pod="web-x7k2p")

Levels: info reports a change, warning a failure that is retried, error a failure that needs an operator; debug is shown
from verbosity 4. `log.info("synced", v=2, ...)` is shown from verbosity 2, as klog's V(2).Info. `source` names the
component, and is written instead of klog's file name. Lines of Python's own logging are included.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from kcm.runtime.logs.lines import DEBUG_VERBOSITY, JsonLines, TextLines, stack
from kcm.runtime.logs.settings import LogSettings
from kcm.runtime.logs.structlog_alone import structlog
from kcm.runtime.process.files import create_private
from kcm.runtime.process.standard_streams import ERASE, is_terminal, write_or_forget

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

__all__ = ["LogControl", "LogSettings", "Sink", "configure_logging", "logger_for"]

PROGRAM = "kcm"
OTHER_NAMES = 100  # names to try for a log file
FILE_SEVERITIES = ("INFO", "WARNING", "ERROR")
RANKS = {
    "debug": 0,
    "info": 0,
    "warning": 1,
    "error": 2,
    "critical": 2,
}  # index of the last file in FILE_SEVERITIES that a line is written to
LINES_OF_LIBRARIES = {0: logging.WARNING, DEBUG_VERBOSITY: logging.INFO, DEBUG_VERBOSITY + 2: logging.DEBUG}


class Sink:
    """Destination of log lines: standard error and files. Lines are written whole, from any thread.

    Raises OSError if the directory cannot be written when the sink is created. A line that cannot be written later is
    dropped, so that logging never fails. Only the owner can read the files: they contain names of objects, and the
    directory may be /tmp.

    quiet: standard error receives only warnings and errors.
    troubles: links that could not be created, with the error.
    """

    def __init__(self, *, stderr: TextIO | None, directory: str, now: Callable[[], float], quiet: bool = False) -> None:
        self._lock = threading.Lock()
        self._stderr = stderr
        # On a terminal a log line may overwrite a status line, which may be longer.
        self._before = ERASE if stderr is not None and is_terminal(stderr) else ""
        self.quiet = quiet
        self._directory = Path(directory) if directory else None
        self._files: list[TextIO] = []
        self._now = now
        self.troubles: list[tuple[str, OSError]] = []
        if self._directory is not None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._files = [self._open(severity) for severity in FILE_SEVERITIES]

    def takes(self, level: str) -> bool:
        """Report whether a line of this level is written anywhere."""
        return bool(self._files) or (self._stderr is not None and not (self.quiet and RANKS[level] == 0))

    def write(self, level: str, line: str) -> None:
        text = line + "\n"
        with self._lock:
            if self._stderr is not None and not (self.quiet and RANKS[level] == 0):
                write_or_forget(self._stderr, self._before + text)
            for file in self._files[: RANKS[level] + 1]:
                with contextlib.suppress(OSError):  # a disk that is full now may have room for a later line
                    file.write(text)

    def close(self) -> None:
        with self._lock:
            for file in self._files:
                with contextlib.suppress(OSError):
                    file.close()
            self._files = []

    def _open(self, severity: str) -> TextIO:
        """Open a new file, named like klog's, and create a link to it, <program>.<SEVERITY>."""
        assert self._directory is not None
        begun = datetime.fromtimestamp(self._now(), tz=UTC).astimezone()
        host = socket.gethostname().partition(".")[0]
        name = f"{PROGRAM}.{host}.{getpass.getuser()}.log.{severity}.{begun:%Y%m%d-%H%M%S}.{os.getpid()}"
        name, descriptor = self._create(name)
        link = self._directory / f"{PROGRAM}.{severity}"
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(name)
        except OSError as err:  # the link belongs to another user, in a shared directory; the file exists without it
            self.troubles.append((str(link), err))
        return os.fdopen(descriptor, "a", encoding="utf-8", buffering=1)

    def _create(self, name: str) -> tuple[str, int]:
        """Create a file of this name, or with a free suffix: another user may have created a file of that name."""
        assert self._directory is not None
        for suffix in ("", *(f".{number}" for number in range(1, OTHER_NAMES))):
            with contextlib.suppress(FileExistsError):
                return name + suffix, create_private(self._directory / (name + suffix))
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(self._directory / name))


class LogControl:
    """Verbosity of the log, which can change while the program runs."""

    def __init__(self, settings: LogSettings, *, sink: Sink, now: Callable[[], float]) -> None:
        self._sink, self._now = sink, now
        self._lines = JsonLines() if settings.format == "json" else TextLines(pid=os.getpid())
        self._vmodule = settings.vmodule
        self._by_source: dict[str, int] = {}  # verbosity of the sources that vmodule matches, as they are met
        self.verbosity = settings.verbosity
        self.most = 0  # the highest verbosity of any source; compared first, because most lines are above it
        self._set_verbosity(settings.verbosity)

    def set_verbosity(self, verbosity: int) -> None:
        self._sink.quiet = False
        self._set_verbosity(verbosity)

    def _set_verbosity(self, verbosity: int) -> None:
        self.verbosity = verbosity
        self._by_source.clear()
        self.most = max([verbosity, 0, *(level for _, level in self._vmodule)])
        logging.getLogger().setLevel(
            max((above, level) for above, level in LINES_OF_LIBRARIES.items() if above <= self.most)[1]
        )

    def shows(self, source: str, v: int) -> bool:
        """Report whether lines of this source and verbosity are shown. Lines with verbosity 0 always are."""
        if not self._vmodule:
            return v <= self.most
        verbosity = self._by_source.get(source)
        if verbosity is None:
            matching = (level for pattern, level in self._vmodule if fnmatchcase(source, pattern))
            verbosity = self._by_source[source] = next(matching, self.verbosity)
        return v <= max(verbosity, 0)

    def write(self, level: str, source: str, message: str, facts: MutableMapping[str, Any]) -> None:
        """Write one line, unless its verbosity is too high.

        facts: `exc_info` is written as `stacktrace`; `v` is the verbosity of an info line, 0 if absent.
        """
        v = DEBUG_VERBOSITY if level == "debug" else facts.pop("v", 0) if level == "info" else 0
        if not self._sink.takes(level) or not self.shows(source, v):
            return
        if info := facts.pop("exc_info", None):
            facts["stacktrace"] = stack(info)
        self._sink.write(level, self._lines(level, self._now(), source, message, facts, v))

    def close(self) -> None:
        """Close the files. Later lines are written to standard error only."""
        self._sink.close()


class _Writer:
    """Logger that structlog calls after its processors: one method per level."""

    def __init__(self, control: LogControl) -> None:
        self._control = control

    def _write(self, level: str, event: MutableMapping[str, Any]) -> None:
        self._control.write(level, str(event.pop("source", PROGRAM)), str(event.pop("event", "")), event)

    def debug(self, **event: Any) -> None:
        self._write("debug", event)

    def info(self, **event: Any) -> None:
        self._write("info", event)

    def warning(self, **event: Any) -> None:
        self._write("warning", event)

    def error(self, **event: Any) -> None:
        self._write("error", event)

    def critical(self, **event: Any) -> None:
        self._write("critical", event)


class _FromStandardLogging(logging.Handler):
    """Handler that passes lines of Python's logging, from libraries, to the log."""

    def __init__(self, control: LogControl) -> None:
        super().__init__()
        self._control = control

    def emit(self, record: logging.LogRecord) -> None:
        try:
            facts = {"exc_info": record.exc_info} if record.exc_info else {}
            self._control.write(_level(record.levelno), record.name, record.getMessage(), facts)
        except Exception:
            self.handleError(record)


def _level(number: int) -> str:
    if number >= logging.CRITICAL:
        return "critical"
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    # Info lines of libraries do not interest operators, so they are treated as debug lines.
    return "debug"


def configure_logging(settings: LogSettings, *, now: Callable[[], float], stderr: TextIO | None = None) -> LogControl:
    """Configure structlog and Python's logging for the whole process. Only the command may call this.

    now: returns Unix seconds.
    stderr: replaces sys.stderr.

    Raises OSError when the log directory cannot be written.
    """
    shown = (stderr if stderr is not None else sys.stderr) if settings.to_stderr else None
    sink = Sink(stderr=shown, directory=settings.directory, now=now, quiet=settings.quiet)
    control = LogControl(settings, sink=sink, now=now)
    everything = structlog.make_filtering_bound_logger(logging.DEBUG)

    def debug(self: Any, event: str, *args: Any, **facts: Any) -> Any:
        # Compared at each call, because the verbosity may change after a logger was bound. Most calls end here.
        return cast("Any", everything).debug(self, event, *args, **facts) if control.most >= DEBUG_VERBOSITY else None

    def info(self: Any, event: str, *args: Any, v: int = 0, **facts: Any) -> Any:
        return cast("Any", everything).info(self, event, *args, v=v, **facts) if v <= control.most else None

    structlog.configure(
        processors=[],
        wrapper_class=type("Logger", (everything,), {"debug": debug, "info": info}),
        logger_factory=lambda *_: _Writer(control),
        cache_logger_on_first_use=True,
    )
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
    root.addHandler(_FromStandardLogging(control))
    logging.captureWarnings(True)
    for link, trouble in sink.troubles:
        logger_for(PROGRAM).warning("link to the log file cannot be made", link=link, error=trouble.strerror)
    return control


def logger_for(source: str, **facts: Any) -> FilteringBoundLogger:
    """Return a logger whose lines contain the source and these facts. Call this once and keep the logger."""
    logger: FilteringBoundLogger = structlog.get_logger().bind(source=source, **facts)
    return logger
