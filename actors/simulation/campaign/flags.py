"""What flags of run-kcm say to the managers of a setting: read once for all of its runs."""

from __future__ import annotations

from functools import lru_cache

from kcm.actors.app.arguments import read_options
from kcm.actors.options import Options

READ = 256  # command lines; a setting has a handful


@lru_cache(maxsize=READ)
def given(*flags: str) -> Options:
    """As `read_options`."""
    return read_options(flags)
