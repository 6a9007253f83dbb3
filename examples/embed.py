"""The controller manager inside another program: python examples/embed.py KUBECONFIG

Scales nothing by itself: it keeps ReplicationControllers, ReplicaSets, Deployments and the rest in line until Ctrl-C.
"""

import sys

from kcm import ControllerSystem, api_transport


def main(kubeconfig: str) -> None:
    with api_transport(kubeconfig) as transport, ControllerSystem(transport=transport) as system:
        print(f"running: {', '.join(system.enabled)}", flush=True)
        print(f"ended: {system.wait()}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted: all actors are stopped")
