from __future__ import annotations

import pytest

from kcm.actors.simulation import SimulatedCluster
from tests.actors.controllers.nodes.fleet import Fleet


@pytest.fixture
def fleet(cluster: SimulatedCluster) -> Fleet:
    """Return a simulated cluster with three zones of ten healthy nodes each. No controller runs yet."""
    return Fleet(cluster)
