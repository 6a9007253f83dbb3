"""Fixtures of the controllers of nodes."""

from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from tests.actors.controllers.nodes.fleet import Fleet


@pytest.fixture
def fleet(cluster: SimulatedCluster) -> Fleet:
    """Three zones of ten nodes that speak, and no manager yet."""
    return Fleet(cluster)
