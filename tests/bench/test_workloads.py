from __future__ import annotations

from itertools import count
from typing import Any

import orjson
import pytest

from tests.bench.kubelets import life_of
from tests.bench.processes import ApiConnection, embedded_cluster, our_manager
from tests.bench.workloads import Sizes, attached_volumes, cron_jobs, daemon_set, device_claims, job, stateful_set


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def requiring(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(("waiting_pod", "node"), [(pod(), "n1"), (pod(affinity=requiring("n7")), "n7")])
def test_pod_is_bound_to_required_node_or_else_to_next(waiting_pod, node):
    binding = next(life_of(waiting_pod, otherwise="n1", ends=False))

    assert (binding.method, binding.path) == ("POST", "binding")
    assert orjson.loads(binding.body)["target"]["name"] == node


@pytest.mark.parametrize(("ends", "phases"), [(False, ["Running"]), (True, ["Running", "Succeeded"])])
def test_pod_that_ends_runs_before_it_succeeds(ends, phases):
    _, *statuses = life_of(pod(), otherwise="n1", ends=ends)

    assert [orjson.loads(write.body)["status"]["phase"] for write in statuses] == phases


SMALL = Sizes(nodes=4, stateful=3, completions=5, parallel=2, cron_jobs=3)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("scenario", [daemon_set, stateful_set, attached_volumes, device_claims, job, cron_jobs])
def test_scenario_ends_and_returns_figures(scenario):
    numbers = count(1)
    with embedded_cluster() as cluster:
        api = ApiConnection(cluster)

        def namespace() -> str:
            name = f"bench-{next(numbers)}"
            body = orjson.dumps({"metadata": {"name": name}})
            assert api.request("POST", "/api/v1/namespaces", body).status == 201
            return name

        try:
            measurements = list(scenario(cluster, api, our_manager, namespace, SMALL))
            remaining = api.request("GET", "/api/v1/pods")
        finally:
            api.close()
    assert measurements
    assert all(figures["peak_mb"] > 0 for _, figures in measurements)
    assert orjson.loads(remaining.body)["items"] == []
