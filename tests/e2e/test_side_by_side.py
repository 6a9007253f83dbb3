"""Comparison of kube-controller-manager and kcm under the same user actions, on one kube-apiserver.

The results must be equal except for names, uids, hashes, times and versions: every object with its managedFields,
every event with its count, and what kubectl printed on the way.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e.conftest import Site, in_namespace
from tests.e2e.kubectl import Api, Kubectl
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.scenarios import SCENARIOS, Scenario
from tests.e2e.snapshots import Snapshot, differences, plain_print, settled_snapshot, versions

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]


# Several users at once, and events are written when there is a token left for them.
UNLIMITED = ("--kube-api-qps=1000", "--kube-api-burst=1000")


def namespace_of(scenario: Scenario, whose: str) -> str:
    return f"{scenario.__name__.replace('_', '-')}-{whose}"


def play(scenario: Scenario, kubectl: Kubectl) -> Snapshot:
    printed = {command: plain_print(text, kubectl.namespace) for command, text in scenario(kubectl).items()}
    return printed | settled_snapshot(kubectl)


@pytest.fixture(scope="module")
def with_the_real_one(real: RealServer) -> dict[Scenario, Snapshot]:
    """Objects of each scenario after kube-controller-manager has ended."""

    def play_it(scenario: Scenario) -> Snapshot:
        return play(scenario, in_namespace(real.kubeconfig, namespace_of(scenario, "real")))

    with real_manager(real, *UNLIMITED), ThreadPoolExecutor(max_workers=5) as users:
        return dict(zip(SCENARIOS, users.map(play_it, SCENARIOS), strict=True))


@pytest.fixture(scope="module")
def before(real: RealServer, with_the_real_one: object) -> dict[str, str]:
    """Versions of what the real manager left, before ours saw any of it."""
    return left_by(real, "real")


@pytest.fixture(scope="module")
def ours(before: object, on_real: Site) -> Site:
    return on_real


def left_by(real: RealServer, whose: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for scenario in SCENARIOS:
        found |= versions(Kubectl(Api(real.kubeconfig), namespace_of(scenario, whose)))
    return found


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_results_are_the_same_as_with_kube_controller_manager(
    scenario: Scenario, with_the_real_one: dict[Scenario, Snapshot], ours: Site
) -> None:
    left = play(scenario, ours.namespace(namespace_of(scenario, "ours")))
    found = differences(with_the_real_one[scenario], left)
    if found:
        pytest.fail(found, pytrace=False)


def test_we_find_nothing_to_do_in_what_the_real_one_left(real: RealServer, before: dict[str, str], ours: Site) -> None:
    assert left_by(real, "real") == before
