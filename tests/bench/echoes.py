"""The controller of the benchmark custom-resources, on kcm: python -m tests.bench.echoes KUBECONFIG"""

from __future__ import annotations

import sys

from kcm import ControllerSpec, ControllerSystem, Key, Queue, Reconciliation, Resource, Watch, api_transport
from kcm.manager import read_options
from kcm.specs import ControllerContext, itself
from kcm.steps import patch_status

ECHOES = Resource(group="bench.kcm.dev", version="v1", plural="echoes", kind="Echo")


class Echoes:
    """Copies the text of an Echo from its spec to its status."""

    def __init__(self, context: ControllerContext) -> None:
        self._echoes = context.tables[ECHOES]

    def reconcile(self, key: Key) -> Reconciliation:
        echo = self._echoes.get(key)
        if echo is not None:
            yield from patch_status(self._echoes, echo, {"text": echo["spec"]["text"]})
        return None


SPEC = ControllerSpec(
    name="echo-controller",
    queues=(Queue(watches=(Watch(ECHOES, to=itself),), concurrency=lambda _options: 10),),
    build=Echoes,
)


def main(kubeconfig: str) -> None:
    options = read_options(["--kube-api-qps=-1"], controllers=(SPEC,))
    with (
        api_transport(kubeconfig) as transport,
        ControllerSystem(transport=transport, controllers=(SPEC,), options=options) as system,
    ):
        system.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
