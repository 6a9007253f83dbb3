"""Import of structlog without its optional console dependencies.

If rich is installed, structlog imports it for coloured tracebacks, which kcm does not write. That costs a tenth of the
start-up time, and 5 MB. The first import of structlog in the process must be from this module.
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
