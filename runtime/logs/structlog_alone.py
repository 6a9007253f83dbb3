"""Import of structlog without its optional console dependencies.

Where rich is installed, for whatever program, structlog imports it for tracebacks in colour, which we do not write: a
tenth of a start, and 5 MB. Who imports structlog from here first, in this process, has it without.
"""

from __future__ import annotations

import sys

__all__ = ["structlog"]

if "structlog" in sys.modules or "rich" in sys.modules:
    import structlog
else:
    sys.modules["rich"] = None  # type: ignore[assignment]  # makes the import fail
    try:
        import structlog
    finally:
        del sys.modules["rich"]
