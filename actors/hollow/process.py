"""Process of the hollow cluster: `python -m kcm.actors.hollow.process --kubeconfig FILE --nodes 3 --zones 2`.

Its nodes, kubelets, scheduler, provisioner, attacher and resizer are controllers like any other, in a separate actor
system, so that failures of the controller manager do not affect them. They read as the user of the kubeconfig; with
--node-key each kubelet writes as its node, over shared connections. The process ends with the process that started it,
for any reason.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from kcm.actors.app.connection import connect
from kcm.actors.app.system import ControllerSystem
from kcm.actors.hollow.nodes.fleet import HollowNode, make_fleet
from kcm.actors.hollow.scheduler.spec import CLIENT
from kcm.actors.hollow.specs import specs_of
from kcm.actors.options import Options
from kcm.protocols.resources import DEVICE_TAINT_RULES, STABLE_TAINT_RULES
from kcm.runtime.client.config import ConfigError, Credential, CredentialSource
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.credentials import FixedCredential, bearer
from kcm.runtime.logs.configuration import configure_logging, logger_for
from kcm.runtime.logs.settings import LogSettings
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.process.termination import with_parent
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.signing.node_tokens import node_token

PROGRAM = "hollow-cluster"
TAINT_RULES = {rules.version: rules for rules in (DEVICE_TAINT_RULES, STABLE_TAINT_RULES)}
# By client, the corresponding program of a real cluster, with the suffix of its user agent.
PROGRAMS = {
    "hollow-nodes": ("kubelet", ""),
    "hollow-kubelet": ("kubelet", ""),
    CLIENT: ("kube-scheduler", "scheduler"),
    "hollow-provisioner": ("hollow-provisioner", ""),
    "hollow-attacher": ("hollow-attacher", ""),
    "hollow-resizer": ("hollow-resizer", ""),
    "hollow-devices": ("hollow-devices", ""),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="hollow-cluster", description="Nodes that run pods in appearance only.")
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--scheduler-kubeconfig", default="", help="kubeconfig of the scheduler, if it is another user")
    parser.add_argument(
        "--node-key", type=Path, default=None, help="file with the key from which the tokens of nodes are derived"
    )
    parser.add_argument("--context", default="", help="context of the kubeconfig (default: its current context)")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--zones", type=int, default=2)
    parser.add_argument("--pods-per-node", type=int, default=110)
    parser.add_argument(
        "--volumes", action="store_true", help="provision volumes for claims, and let pods wait for them"
    )
    parser.add_argument(
        "--attach", action="store_true", help="let pods wait until the attach-detach controller attaches their volumes"
    )
    parser.add_argument(
        "--devices", action="store_true", help="publish devices of nodes, and allocate them to ResourceClaims of pods"
    )
    parser.add_argument(
        "--device-taint-rules", choices=TAINT_RULES, default="", help="version of the DeviceTaintRules that are obeyed"
    )
    parser.add_argument(
        "--pod-groups", action="store_true", help="allocate devices also to ResourceClaims of PodGroups"
    )
    parser.add_argument("--logging-format", choices=("text", "json"), default="text")
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    arguments = parser.parse_args(argv)
    clock = SystemClock()
    configure_logging(LogSettings(format=arguments.logging_format, verbosity=-1, quiet=arguments.quiet), now=clock.now)
    log = logger_for("hollow")
    running: list[ControllerSystem] = []

    def respond(body: bytes) -> bytes:
        from kcm.actors.app.neighbours import response_to  # loaded when something is explained

        try:
            return response_to(body, running[0].view()) if running else b""
        except Exception as err:  # an explanation must not end the nodes
            log.error("the request of the manager failed", error=repr(err), exc_info=True)
            return b""

    ended = with_parent(respond)
    metrics = Metrics()
    try:
        fleet = make_fleet(nodes=arguments.nodes, zones=arguments.zones, pods=arguments.pods_per_node)
        specs = specs_of(
            fleet,
            volumes=arguments.volumes,
            attach=arguments.attach,
            devices=arguments.devices,
            taint_rules=TAINT_RULES.get(arguments.device_taint_rules),
            groups=arguments.pod_groups,
        )
        load = partial(
            load_config, master=None, context=arguments.context, environ=os.environ, clock=clock, metrics=metrics
        )
        config = load(kubeconfig=arguments.kubeconfig)
        others: dict[str, CredentialSource] = {}
        if arguments.node_key is not None:
            others |= credentials_of(fleet.values(), arguments.node_key.read_bytes())
        if arguments.scheduler_kubeconfig:
            others[CLIENT] = load(kubeconfig=arguments.scheduler_kubeconfig).credentials
    except (ConfigError, ValueError, OSError) as err:
        log.error("hollow cluster cannot start", error=str(err))
        return 1
    transport = connect(
        config, clock=clock, metrics=metrics, log=log, others=others, program=PROGRAM, programs=PROGRAMS
    )
    system = ControllerSystem(
        transport=transport, log=log, controllers=specs, options=unlimited(Options()), clock=clock, metrics=metrics
    )
    system.start()
    running.append(system)
    while system.wait(timeout=0.5) is None and not ended.is_set():
        pass
    system.halt()
    transport.close(timeout=1.0)
    return 0


def credentials_of(fleet: Iterable[HollowNode], key: bytes) -> dict[str, CredentialSource]:
    """Return the credential of each node's user: a token per node."""
    return {
        node.user: FixedCredential(Credential(authorization=bearer(node_token(key, node.name), origin=node.name)))
        for node in fleet
    }


def unlimited(options: Options) -> Options:
    """Return the options without a client rate limit, because each real kubelet has a rate limit of its own."""
    return replace(options, client_limits=replace(options.client_limits, qps=-1.0))


if __name__ == "__main__":
    sys.exit(main())
