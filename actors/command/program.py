"""Description of a program that runs controllers: run-kcm itself, or a caller of kcm.main()."""

from __future__ import annotations

from msgspec import Struct

from kcm.actors.app.installed import Installed
from kcm.actors.options import Options, OtherProgram
from kcm.actors.reconciliation.specs import ControllerSpec, runs, switched_on

NOTHING_INSTALLED = Installed((), ())


class ControllerProgram(Struct, frozen=True, kw_only=True):
    """Facts about a program that depend on whose controllers it runs."""

    # Field manager of writes, component of events, and the beginning of the user agent.
    component: str
    # Output of --version; "" for the version of kcm.
    version: str = ""
    built_in: tuple[ControllerSpec, ...]
    # Controllers of other packages, which are installed under the entry-point group kcm.controllers.
    installed: Installed = NOTHING_INSTALLED
    # Its command line, if it does not run in place of kube-controller-manager.
    other: OtherProgram | None = None

    @property
    def name(self) -> str:
        return self.other.name if self.other is not None else "kcm"

    @property
    def controllers(self) -> tuple[ControllerSpec, ...]:
        return (*self.built_in, *self.installed.specs)

    def runs(self, controller: str, options: Options) -> bool:
        """Report whether the built-in controller with this name runs."""
        return runs(controller, self.built_in, options)


def foreign_lease_error(program: ControllerProgram, options: Options) -> str | None:
    """Return an error if controllers of other packages alone would compete for the cluster manager's Lease.

    They would wait for kube-controller-manager to end, or replace it without running its controllers. The operator can
    name the Lease to confirm that this is wanted.
    """
    elect = options.leader_election
    if not elect.enabled or "leader-elect-resource-name" in options.given or options.embeds_cluster:
        return None
    names = [spec.name for spec in switched_on(program.controllers, options) if spec.enabled_if(options)]
    built_in = {spec.name for spec in program.built_in}
    if not names or not built_in.isdisjoint(names):
        return None
    return (
        f"--controllers enables only controllers of other packages ({', '.join(names)}), but the Lease "
        f"{elect.resource_namespace}/{elect.resource_name} is the one of the cluster's controller manager: "
        "name another Lease with --leader-elect-resource-name, or this one"
    )
