"""Jobs of every sort come to their end, on our cluster and on a real kube-apiserver."""

from __future__ import annotations

import pytest

from tests.e2e.jobs import scene
from tests.e2e.kubectl import Kubectl

pytestmark = pytest.mark.timeout(300)


def test_every_job_comes_to_its_end(kubectl: Kubectl) -> None:
    scene(kubectl)
