from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from tests.actors.controllers.nodes.fleet import Fleet


@pytest.fixture
def fleet(cluster: SimulatedCluster) -> Fleet:
    """Return a simulated cluster with two zones of six healthy nodes each. No controller runs yet."""
    return Fleet(cluster, zones="ab", size=6)
