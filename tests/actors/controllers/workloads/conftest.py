import pytest

from tests.actors.controllers.workloads.replica_sets import Scene


@pytest.fixture
def scene(log):
    """Builds a Scene of ReplicaSets and pods."""
    return lambda *replica_sets, **options: Scene(log, *replica_sets, **options)
