"""Priority: the priority of a pod is that of its class."""

from __future__ import annotations

from tests.runtime.apiserver.conftest import Api


def test_pod_gets_the_priority_of_its_class(api: Api) -> None:
    api.create("priorityclasses", {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = api.create("pods", api.pod("a", priorityClassName="high")).obj["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")

    critical = api.create("pods", api.pod("b", priorityClassName="system-node-critical"))
    assert critical.obj["spec"]["priority"] == 2_000_001_000

    unknown = api.create("pods", api.pod("c", priorityClassName="low"))
    assert (unknown.status, unknown.message) == (
        403,
        'pods "c" is forbidden: no PriorityClass with name low was found',
    )
    cheating = api.create("pods", api.pod("d", priority=5))
    assert cheating.message.startswith('pods "d" is forbidden: the integer value of priority (5) must not be provided')


def test_error_names_the_generate_name_of_a_pod_without_name(api: Api) -> None:
    body = api.pod(priorityClassName="low")
    body["metadata"] = {"generateName": "web-"}
    refused = api.create("pods", body)
    assert refused.message == 'pods "web-" is forbidden: no PriorityClass with name low was found'
