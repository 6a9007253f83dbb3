"""The controller manager inside another program: python examples/embed.py [KUBECONFIG]

Runs all built-in controllers until Ctrl-C, and serves their metrics on loopback. Without a kubeconfig it starts an
embedded cluster.
"""

import sys
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from kcm import ControllerSystem, LocalCluster, api_transport
from kcm.manager import serve


def main(kubeconfig: str = "") -> None:
    with ExitStack() as closing:
        if not kubeconfig:
            directory = closing.enter_context(TemporaryDirectory())
            kubeconfig = str(closing.enter_context(LocalCluster.start(directory, nodes=2)).kubeconfig)
        transport = closing.enter_context(api_transport(kubeconfig))
        system = closing.enter_context(ControllerSystem(transport=transport))
        pages = closing.enter_context(serve(system, "127.0.0.1:0"))
        print(f"metrics: {pages.url}/metrics", flush=True)
        print(f"running: {', '.join(system.enabled)}", flush=True)
        print(f"ended: {system.wait()}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted: all actors are stopped")
