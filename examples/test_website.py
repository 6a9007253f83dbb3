"""The Website controller in a unit test, in the simulator and on an API server: python -m pytest examples"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config, watch
from website_controller import DEPLOYMENTS, WEBSITE, WEBSITES, Websites

from kcm import BUILT_IN, ControllerSystem, Resource, api_transport
from kcm.testing import Bench, SimulatedCluster, created_keys, drive

HERE = Path(__file__).parent
CRDS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
)


def manifest(name: str) -> Any:
    return yaml.safe_load((HERE / name).read_text())


def test_website_gets_one_deployment() -> None:
    """Drive the reconciler without a server. Its second run sees the write of the first before any watch event."""
    website = {**manifest("website.yml"), "metadata": {"name": "blog", "namespace": "default"}}
    bench = Bench({WEBSITES: [website], DEPLOYMENTS: []})
    websites = Websites(tables=bench.tables)
    driven = drive(websites, "default/blog", bench.accept, tables=bench.tables)
    assert created_keys(driven) == ["default/blog"]
    assert driven.events == [("Normal", "Deployed", "Made Deployment blog")]
    assert created_keys(drive(websites, "default/blog", bench.accept, tables=bench.tables)) == []


def test_deployment_follows_changes_of_its_website(world: SimulatedCluster) -> None:
    world.create(CRDS, manifest("website-crd.yml"))
    world.hollow_nodes()
    world.manager(controllers=(*BUILT_IN, WEBSITE))
    world.create(WEBSITES, manifest("website.yml"))

    def ready() -> Any:
        website = world.get(WEBSITES, "default/blog")
        return website is not None and website.get("status", {}).get("ready")

    assert world.run_until(lambda: ready() == 2, within=60)
    world.merge(WEBSITES, "default/blog", {"spec": {"replicas": 5}})
    assert world.run_until(lambda: ready() == 5, within=60)
    world.merge(WEBSITES, "default/blog", {"spec": {"image": "httpd"}})
    world.run_for(60)
    (deployment,) = world.list(DEPLOYMENTS)
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "httpd"
    assert ready() == 5


@pytest.mark.parametrize("crash_time", range(3))
def test_crash_of_the_controller_does_not_change_the_result(world: SimulatedCluster, crash_time: int) -> None:
    world.create(CRDS, manifest("website-crd.yml"))
    world.hollow_nodes()
    system = world.manager(controllers=(*BUILT_IN, WEBSITE))
    world.create(WEBSITES, manifest("website.yml"))
    world.run_for(0.01 * (1 + crash_time))
    world.world.kill(system.actors, "controller:website-controller")
    world.run_for(60)
    assert [deployment["metadata"]["name"] for deployment in world.list(DEPLOYMENTS, "default")] == ["blog"]
    assert [website["status"] for website in world.list(WEBSITES)] == [{"ready": 2}]


def test_website_becomes_ready_on_a_running_server(kubeconfig: Path) -> None:
    with config.new_client_from_config(str(kubeconfig)) as api:
        client.ApiextensionsV1Api(api).create_custom_resource_definition(manifest("website-crd.yml"))
        where = ("example.com", "v1", "default", "websites")
        with (
            api_transport(kubeconfig) as transport,
            ControllerSystem(transport=transport, controllers=(*BUILT_IN, WEBSITE)),
        ):
            websites = client.CustomObjectsApi(api)
            websites.create_namespaced_custom_object(*where, manifest("website.yml"))
            seen = []
            for event in watch.Watch().stream(websites.list_namespaced_custom_object, *where, timeout_seconds=40):
                seen.append(event["object"].get("status", {}).get("ready", 0))
                if seen[-1] == 2:
                    break
            assert seen[-1] == 2, seen
