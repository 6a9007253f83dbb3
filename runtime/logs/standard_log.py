"""Loggers for a program that embeds kcm, which write to Python's logging.

Nothing is configured here, neither in logging nor in structlog: the program decides what is shown, and where.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, cast

from kcm.runtime.logs.lines import fact_text
from kcm.runtime.logs.structlog_alone import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

OUR_CALLER = 3  # frames above logging's: two of structlog's, then the caller of the logger


def standard_log(name: str) -> FilteringBoundLogger:
    """Return a logger that writes to logging.getLogger(name): the message, then key="value" for each fact.

    record.facts also contains the facts. Info lines with a verbosity above 0 (`log.info("synced", v=2)`) have Python's
    level DEBUG.
    """
    levels = structlog.make_filtering_bound_logger(logging.DEBUG)

    def info(self: Any, event: str, *args: Any, v: int = 0, **facts: Any) -> Any:
        method = cast("Any", levels).debug if v else cast("Any", levels).info
        return method(self, event, *args, v=v, **facts)

    logger: FilteringBoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[structlog.stdlib.filter_by_level, _as_record],
        wrapper_class=type("Logger", (levels,), {"info": info}),
        context_class=dict,
    )
    return logger


def quiet_log() -> FilteringBoundLogger:
    """Return a logger that drops every line before it is formatted."""

    def drop(*_: Any) -> Any:
        raise structlog.DropEvent

    log: FilteringBoundLogger = structlog.wrap_logger(None, processors=[drop])
    return log


def _as_record(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    exc_info = event.pop("exc_info", None)
    frames = OUR_CALLER if event.pop("v", None) is None else OUR_CALLER + 1  # info has one frame more, see above
    text = str(event.pop("event", ""))
    line = text + "".join(f" {key}={fact_text(value)}" for key, value in event.items())
    # The message is formatted already. Without arguments logging leaves percent signs as they are.
    return (line,), {"exc_info": exc_info, "extra": {"facts": dict(event)}, "stacklevel": frames}
