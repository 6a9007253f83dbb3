"""Objects that are explained seconds after they were created: what is wrong is certain by then."""

from __future__ import annotations

from tests.actors.explanation.scenario import Act, Scenario, Scene
from tests.actors.explanation.scenarios.batch import ENDLESS, job_spec
from tests.actors.explanation.scenarios.network import no_class, service
from tests.actors.explanation.scenarios.storage import claim, user

SECONDS = 8.0


def no_pods(scene: Scene) -> tuple[str, str]:
    return service(scene, "web", {"app": scene.chance.choice(("wbe", "shop"))})


def no_replicas(scene: Scene) -> tuple[str, str]:
    scene.pod_owner("web", kind=scene.chance.choice(("Deployment", "StatefulSet", "ReplicaSet")), replicas=0)
    return service(scene, "web", {"app": "web"})


def refused_pods(scene: Scene) -> tuple[str, str]:
    """Select the pods of a workload that cannot create them."""
    hard = {"pods": "0"}
    scene.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": hard}})
    scene.run(5.0)
    scene.pod_owner("web", kind=scene.chance.choice(("Deployment", "StatefulSet", "DaemonSet")))
    return service(scene, "web", {"app": "web"})


def no_volume(scene: Scene) -> tuple[str, str]:
    return claim(scene, storageClassName="", resources={"requests": {"storage": "500Gi"}})  # larger than any volume


def suspended(scene: Scene) -> tuple[str, str]:
    spec = job_spec("later", ENDLESS, suspend=True)
    scene.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "later"}, "spec": spec})
    return "Job", "later"


def image(scene: Scene) -> tuple[str, str]:
    return scene.pod_owner("web", kind="Deployment", container={"image": "nginx:404"})


def missing_claim(scene: Scene) -> tuple[str, str]:
    return user(scene, "db", "absent", kind=scene.chance.choice(("StatefulSet", "Pod")))


def no_node(scene: Scene) -> tuple[str, str]:
    large = {"resources": {"requests": {"cpu": "900"}}}
    return scene.pod_owner("large", kind=scene.chance.choice(("Pod", "Deployment")), container=large)


def _scenario(name: str, code: str, act: Act) -> Scenario:
    return Scenario(name=name, code=code, act=act, wait=SECONDS)


SCENARIOS = (
    _scenario("service has selected no pods for seconds", "service-no-pods", no_pods),
    _scenario("service of a workload without replicas", "service-no-pods", no_replicas),
    _scenario("quota forbids the pods of a service", "quota-exceeded", refused_pods),
    _scenario("claim without a class is seconds old", "claim-no-volume", no_volume),
    _scenario("job has been suspended for seconds", "suspended", suspended),
    _scenario("image has not been pulled for seconds", "image-pull", image),
    _scenario("claim of a new pod does not exist", "claim-missing", missing_claim),
    _scenario("ingress without a class is seconds old", "ingress-unclassed", no_class),
    _scenario("new pod fits on no node", "insufficient-resources", no_node),
)
