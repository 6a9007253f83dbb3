from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from tests.actors.controllers.workloads.replica_sets import Scene


@pytest.fixture
def scene(log: FilteringBoundLogger) -> Callable[..., Any]:
    """Return a function that builds a Scene of ReplicaSets and pods."""
    return lambda *replica_sets, **options: Scene(log, *replica_sets, **options)
