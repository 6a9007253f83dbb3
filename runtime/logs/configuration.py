"""Log configuration: structlog as the API, klog's text or JSON as the format, to standard streams and files.

    control = configure_logging(LogSettings(verbosity=2), now=clock.now)    # once, in the command
    log = logger_for("replicaset-controller", incarnation=3)
    log.info("pod created", key="default/web", pod="web-x7k2p")

Levels: info reports a change, warning a failure that is retried, error a failure that needs an operator; debug is shown
from verbosity 4. `log.info("synced", v=2, ...)` is shown from verbosity 2, as klog's V(2).Info. `source` names the
component, and is written instead of klog's file name. Lines of Python's own logging are included.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, MutableMapping
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO, cast

from kcm.runtime.logs.lines import DEBUG_VERBOSITY, JsonLines, TextLines, stack
from kcm.runtime.logs.settings import LogSettings
from kcm.runtime.logs.sinks import PROGRAM, Sink
from kcm.runtime.logs.structlog_alone import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

__all__ = ["LogControl", "LogSettings", "Sink", "configure_logging", "logger_for"]

LINES_OF_LIBRARIES = {0: logging.WARNING, DEBUG_VERBOSITY: logging.INFO, DEBUG_VERBOSITY + 2: logging.DEBUG}
# Levels that go to standard output with a split stream. Upstream's JSON logger has no level for warnings, so it writes
# them as info lines.
TO_STDOUT = {"text": ("debug", "info"), "json": ("debug", "info", "warning")}


class LogControl:
    """Verbosity of the log, which can change while the program runs."""

    def __init__(self, settings: LogSettings, *, sink: Sink, now: Callable[[], float]) -> None:
        self._sink, self._now, self._closed = sink, now, threading.Event()
        is_json = settings.format == "json"
        self._lines: JsonLines | TextLines = JsonLines(PROGRAM) if is_json else TextLines(pid=os.getpid())
        self._vmodule, self._names = settings.vmodule, settings.vmodule_names
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
            from kcm.runtime.logs.vmodule import verbosity_of  # few runs need it

            matching = verbosity_of(source, self._vmodule, self._names)
            verbosity = self._by_source[source] = max(matching, self.verbosity)
        return v <= max(verbosity, 0)

    def write(
        self, level: str, source: str, message: str, facts: MutableMapping[str, Any], *, caller: str = ""
    ) -> None:
        """Write one line, unless its verbosity is too high.

        facts: `exc_info` is written as `stacktrace`; `v` is the verbosity of an info line, 0 if absent; `plain` is true
            for a message without quotes.
        caller: place of the call, for JSON; by default the place in the code that called the logger.
        """
        v = DEBUG_VERBOSITY if level == "debug" else facts.pop("v", 0) if level == "info" else 0
        if not self._sink.takes(level) or not self.shows(source, v):
            return
        if info := facts.pop("exc_info", None):
            facts["stacktrace"] = stack(info)
        plain = bool(facts.pop("plain", False))
        if self._lines.has_caller and not caller:
            caller = calling_place()
        line = self._lines(level, self._now(), source, message, facts, v, caller=caller, plain=plain)
        self._sink.write(level, line)

    def flush_every(self, seconds: float) -> None:
        """Write the lines in the buffer at this interval, on a separate thread, until close()."""

        def flush() -> None:
            while not self._closed.wait(seconds):
                self._sink.flush()

        threading.Thread(target=flush, name="log flush", daemon=True).start()

    def close(self) -> None:
        """Flush the buffer and close the files. Later lines go to the standard streams only."""
        self._closed.set()
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
            caller = short_place(record.pathname, record.lineno)
            self._control.write(_level(record.levelno), record.name, record.getMessage(), facts, caller=caller)
        except Exception:
            self.handleError(record)


def calling_place() -> str:
    """Return the place of the innermost frame outside of this package and structlog, such as "daemonset/plan.py:12"."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(("structlog", "kcm.runtime.logs.")):
        frame = frame.f_back
    return short_place(frame.f_code.co_filename, frame.f_lineno) if frame is not None else ""


def short_place(path: str, line: int) -> str:
    """Return a file with its directory, and the line: "daemonset/plan.py:12"."""
    return f"{'/'.join(path.split('/')[-2:])}:{line}"


def _level(number: int) -> str:
    if number >= logging.CRITICAL:
        return "critical"
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    # Info lines of libraries do not interest operators, so they are treated as debug lines.
    return "debug"


def configure_logging(
    settings: LogSettings, *, now: Callable[[], float], stderr: TextIO | None = None, stdout: TextIO | None = None
) -> LogControl:
    """Configure structlog and Python's logging for the whole process. Only the command may call this.

    now: returns Unix seconds.
    stderr, stdout: replace sys.stderr and sys.stdout.

    Raises OSError when the log directory or file cannot be written.
    """
    sink = Sink(
        stderr=(stderr if stderr is not None else sys.stderr) if settings.to_stderr else None,
        stdout=(stdout if stdout is not None else sys.stdout) if settings.split_stream else None,
        to_stdout=TO_STDOUT[settings.format],
        buffer_size=settings.info_buffer_size,
        directory=settings.directory,
        file=settings.file,
        largest=settings.largest_file,
        now=now,
        quiet=settings.quiet,
    )
    control = LogControl(settings, sink=sink, now=now)
    if settings.split_stream and settings.info_buffer_size > 0:
        control.flush_every(settings.flush_frequency)
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
