"""Controller of a custom resource: creates a Deployment for each Website, and reports its ready replicas.

kubectl apply -f examples/website-crd.yml -f examples/website.yml
python examples/website_controller.py --kubeconfig ~/.kube/config
run-kcm manifests examples/website_controller.py:WEBSITE        # its role and its Deployment

It runs beside the cluster's controller manager, with a Lease of its own.
"""

import sys
from pathlib import Path

from kcm import (
    ControllerSpec,
    Key,
    Object,
    Queue,
    Reconciliation,
    Resource,
    Tables,
    Watch,
    main,
)
from kcm.commands import record
from kcm.manifests import DefinitionFile, Permission
from kcm.objects import is_deleting, name_of, own
from kcm.outcomes import AlreadyExists, CommandError
from kcm.specs import itself
from kcm.steps import ensure, patch_status

WEBSITES = Resource(group="example.com", version="v1", plural="websites", kind="Website")
DEPLOYMENTS = Resource(group="apps", version="v1", plural="deployments", kind="Deployment")


class Websites:
    def __init__(self, *, tables: Tables) -> None:
        self._websites, self._deployments = tables[WEBSITES], tables[DEPLOYMENTS]

    def reconcile(self, key: Key) -> Reconciliation:
        website = self._websites.get(key)
        if website is None or is_deleting(website):
            return None  # the garbage collector deletes its Deployment
        is_new = self._deployments.get(key) is None
        try:
            deployment = yield from ensure(self._deployments, own(deployment_of(website), by=website, of=WEBSITES))
        except CommandError as err:
            if not isinstance(err.failure, AlreadyExists):
                raise
            yield record(WEBSITES, website, "Warning", "NameTaken", f"Deployment {key} has another owner")
            return None
        if is_new:
            yield record(WEBSITES, website, "Normal", "Deployed", f"Made Deployment {name_of(website)}")
        ready = deployment.get("status", {}).get("readyReplicas", 0)
        yield from patch_status(self._websites, website, {"ready": ready})
        return None


def deployment_of(website: Object) -> Object:
    name, labels = name_of(website), {"website": name_of(website)}
    container = {"name": "web", "image": website["spec"]["image"]}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": website["spec"].get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


WEBSITE = ControllerSpec(
    name="website-controller",
    aliases=("website",),
    # A Deployment has the name of its Website, and so has a conflicting Deployment of another owner.
    queues=(Queue(watches=(Watch(WEBSITES, to=itself), Watch(DEPLOYMENTS, to=itself))),),
    build=lambda context: Websites(tables=context.tables),
    permissions=(Permission(DEPLOYMENTS, ("ensure",)), Permission(WEBSITES, ("patch",), "status")),
    definitions=(DefinitionFile(WEBSITES, Path(__file__).with_name("website-crd.yml")),),
)


if __name__ == "__main__":
    sys.exit(main([WEBSITE], name="website-controller"))
