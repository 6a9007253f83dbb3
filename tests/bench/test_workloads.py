from __future__ import annotations

from itertools import count
from typing import Any

import orjson
import pytest

from tests.bench.kubelets import life_of
from tests.bench.processes import Hand, embedded_cluster, our_manager
from tests.bench.workloads import Sizes, cron_jobs, daemon_set, job, stateful_set


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def requiring(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(("of", "node"), [(pod(), "n1"), (pod(affinity=requiring("n7")), "n7")])
def test_a_pod_is_bound_to_the_node_that_it_requires_or_else_to_the_next(of, node):
    binding = next(life_of(of, otherwise="n1", ends=False))

    assert (binding.method, binding.path) == ("POST", "binding")
    assert orjson.loads(binding.body)["target"]["name"] == node


@pytest.mark.parametrize(("ends", "phases"), [(False, ["Running"]), (True, ["Running", "Succeeded"])])
def test_pod_that_ends_runs_before_it_succeeds(ends, phases):
    _, *statuses = life_of(pod(), otherwise="n1", ends=ends)

    assert [orjson.loads(one.body)["status"]["phase"] for one in statuses] == phases


SMALL = Sizes(nodes=4, stateful=3, completions=5, parallel=2, cron_jobs=3)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("scenario", [daemon_set, stateful_set, job, cron_jobs])
def test_each_scenario_comes_to_its_end_and_has_figures(scenario):
    numbers = count(1)
    with embedded_cluster() as cluster:
        hand = Hand(cluster)

        def namespace() -> str:
            name = f"bench-{next(numbers)}"
            body = orjson.dumps({"metadata": {"name": name}})
            assert hand.ask("POST", "/api/v1/namespaces", body).status == 201
            return name

        try:
            found = list(scenario(cluster, hand, our_manager, namespace, SMALL))
            left = hand.ask("GET", "/api/v1/pods")
        finally:
            hand.close()
    assert found
    assert all(figures["peak_mb"] > 0 for _, figures in found)
    assert orjson.loads(left.body)["items"] == []
