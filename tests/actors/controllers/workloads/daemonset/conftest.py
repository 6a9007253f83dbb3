from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from structlog.typing import FilteringBoundLogger

from tests.actors.controllers.workloads.daemonset.scene import Scene


@pytest.fixture
def scene(log: FilteringBoundLogger) -> Callable[..., Scene]:
    """Return a function that builds a Scene of a DaemonSet."""

    def build(obj: Any, **options: Any) -> Scene:
        return Scene(log, obj, **options)

    return build
