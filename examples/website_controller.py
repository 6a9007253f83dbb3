"""A controller for a resource of one's own: a Website is a Deployment of its image, and says how much of it is ready.

kubectl apply -f examples/website-crd.yml -f examples/website.yml
python examples/website_controller.py KUBECONFIG
"""

import sys
from typing import Any

from kcm import (
    BUILT_IN,
    AlreadyExists,
    ControllerSpec,
    ControllerSystem,
    Key,
    Object,
    PatchType,
    Queue,
    Reconciliation,
    Resource,
    Step,
    Tables,
    Watch,
    api_transport,
    create,
    itself,
    must,
    patch,
    record,
)

WEBSITES = Resource(group="example.com", version="v1", plural="websites", kind="Website")
DEPLOYMENTS = Resource(group="apps", version="v1", plural="deployments", kind="Deployment")


class Websites:
    def __init__(self, *, tables: Tables) -> None:
        self._websites, self._deployments = tables[WEBSITES], tables[DEPLOYMENTS]

    def reconcile(self, key: Key) -> Reconciliation:
        website = self._websites.get(key)
        if website is None or "deletionTimestamp" in website["metadata"]:
            return None  # what it owns goes with it, by its owner reference
        deployment = self._deployments.get(key)
        if deployment is None:
            yield from self._deploy(website)
        elif not is_owned(deployment, website):
            yield record(WEBSITES, website, "Warning", "NameTaken", f"Deployment {key} has another owner")
        else:
            yield from self._follow(key, website, deployment)
        return None

    def _deploy(self, website: Object) -> Step[None]:
        yield from must(create(DEPLOYMENTS, deployment_of(website)), but=(AlreadyExists,))
        yield record(WEBSITES, website, "Normal", "Deployed", f"Made Deployment {website['metadata']['name']}")

    def _follow(self, key: Key, website: Object, deployment: Object) -> Step[None]:
        changes = differences(website, deployment)
        if changes:
            yield from must(patch(DEPLOYMENTS, key, {"spec": changes}, patch_type=PatchType.STRATEGIC))
        ready = deployment.get("status", {}).get("readyReplicas", 0)
        if website.get("status", {}).get("ready") != ready:
            yield from must(patch(WEBSITES, key, {"status": {"ready": ready}}, subresource="status"))


def is_owned(deployment: Object, website: Object) -> bool:
    owners = deployment["metadata"].get("ownerReferences", [])
    return any(owner["uid"] == website["metadata"]["uid"] for owner in owners)


def deployment_of(website: Object) -> Object:
    meta, labels = website["metadata"], {"website": website["metadata"]["name"]}
    owner = {"apiVersion": WEBSITES.api_version, "kind": WEBSITES.kind, "name": meta["name"], "uid": meta["uid"]}
    return {
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "replicas": replicas_of(website),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": website["spec"]["image"]}]},
            },
        },
    }


def differences(website: Object, deployment: Object) -> dict[str, Any]:
    """What to patch into the Deployment's spec; empty when it is as the Website says."""
    changes: dict[str, Any] = {}
    if deployment["spec"]["replicas"] != replicas_of(website):
        changes["replicas"] = replicas_of(website)
    image = website["spec"]["image"]
    if deployment["spec"]["template"]["spec"]["containers"][0]["image"] != image:
        changes["template"] = {"spec": {"containers": [{"name": "web", "image": image}]}}
    return changes


def replicas_of(website: Object) -> int:
    replicas: int = website["spec"].get("replicas", 1)
    return replicas


WEBSITE = ControllerSpec(
    name="website-controller",
    aliases=("website",),
    # A Deployment has its Website's name, and so has another owner's that stands in its way.
    queues=(Queue(watches=(Watch(WEBSITES, to=itself), Watch(DEPLOYMENTS, to=itself))),),
    build=lambda context: Websites(tables=context.tables),
)


def main(kubeconfig: str) -> None:
    with (
        api_transport(kubeconfig) as transport,
        ControllerSystem(transport=transport, controllers=(*BUILT_IN, WEBSITE)) as system,
    ):
        system.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
