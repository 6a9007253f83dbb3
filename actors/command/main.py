"""Entry of programs that run controllers: flags, --help and --version, then the run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kcm.actors.app.arguments import read_options
from kcm.actors.command.program import ControllerProgram, foreign_lease_error
from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options import InvalidOptionsError, OtherProgram, help_text
from kcm.actors.reconciliation.specs import ControllerSpec, checked_specs, clusters_of
from kcm.protocols.arguments import check_text
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.process.version import this_version

# Namespace of the pod that the process runs in.
NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
PORT = 8443  # of the pages of other programs, as the scaffolds of operator-sdk and kubebuilder have it


def main(
    controllers: Sequence[ControllerSpec],
    *,
    name: str,
    namespace: str = "",
    version: str = "",
    argv: Sequence[str] | None = None,
) -> int:
    """Run controllers as a program of their own, and return the exit code for sys.exit().

    The program has the flags of run-kcm that are not about the cluster's own controllers, and those of its controllers.
    It works on the cluster of --kubeconfig or --master, or of the pod that it runs in, and otherwise starts an embedded
    cluster. It acquires a Lease of its own before it writes, serves health and metrics on --secure-port (8443), logs as
    run-kcm does, and on SIGTERM finishes the writes in flight and releases the Lease.

    If its controllers name several clusters, it works on those, each by the context of --kubeconfig that has its name,
    or that --cluster-contexts names. The Lease of a controller is in its home cluster.

    controllers: add kcm.BUILT_IN to run the controllers of kube-controller-manager as well.
    name: of the program and of its Lease; also the field manager of its writes and the component of its events.
    namespace: of the Lease; by default the one of the pod, outside of a pod "default".
    version: of the program, for --version.
    argv: the command line without the program's name; sys.argv[1:] by default.

    Call it on the main thread. Raises TypeError and ValueError for invalid arguments.
    """
    from kcm.runtime.client.request_form import program_or_error
    from kcm.runtime.process.interrupts import answer_interrupts
    from kcm.runtime.process.standard_streams import open_closed_streams, printing

    check_text("name of main", program_or_error(name))
    specs = checked_specs("controllers of main", controllers)
    if clusters := clusters_of(specs):
        from kcm.actors.app.clusters import check_clusters  # few programs work on several clusters

        check_clusters(specs, clusters)
    names = [spec.name for spec in specs]
    own = this_version()
    defaults = {
        "leader-elect-resource-name": name,
        "leader-elect-resource-namespace": namespace or _pod_namespace() or "default",
        "secure-port": PORT,
    }
    program = ControllerProgram(
        component=name,
        version=f"{name} {version}".rstrip() + f" (kcm {own.kcm}, Kubernetes v{own.kubernetes})",
        built_in=specs,
        other=OtherProgram(
            name=name, defaults=defaults, has_cluster_flags=not {spec.name for spec in BUILT_IN}.isdisjoint(names)
        ),
    )
    arguments = tuple(sys.argv[1:] if argv is None else argv)
    answer_interrupts(name)
    open_closed_streams()
    return printing(partial(run_program, program, arguments))


def run_program(program: ControllerProgram, arguments: Sequence[str]) -> int:
    """Parse the flags, carry out --help or --version, or run the controllers. Return the exit code."""
    import shutil

    other = program.other
    try:
        options = read_options(arguments, controllers=program.controllers, other=other)
    except (FlagError, InvalidOptionsError) as err:
        print(f"Error: {err}", file=sys.stderr)
        if isinstance(err, InvalidOptionsError) and err.known_controllers:
            print(f"Known controllers: {', '.join(err.known_controllers)}", file=sys.stderr)
        return 1
    if options.process.help:
        columns = shutil.get_terminal_size().columns
        print(help_text(options, columns=columns, other=other, controllers=[spec.name for spec in program.controllers]))
        return 0
    if options.process.version in ("true", "raw"):
        print(program.version or this_version().describe(options.process.version))
        return 0
    error = foreign_lease_error(program, options) if other is None else None
    if error is not None:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    from kcm.actors.command.run import carry_out

    return carry_out(arguments, options, program)


def _pod_namespace() -> str:
    try:
        return NAMESPACE_FILE.read_text().strip()
    except OSError:
        return ""
