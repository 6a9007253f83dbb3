"""Names and flags of upstream's controllers that are not built yet.

They make every command line of kube-controller-manager valid: --controllers accepts these names, and these flags are
validated as upstream and reported to have no effect. When a controller is built, its entry moves to its own file or
folder.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go, app/*.go, app/options/*controller.go;
the older aliases are those of releases 1.5 to 1.11, and flags that later releases removed keep their meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from kcm.actors.options import Check, ControllerOptions
from kcm.actors.options.known_controllers import is_enabled

YEAR = 8760 * 3600.0


class UnbuiltController(Struct, frozen=True, kw_only=True):
    """The part of a ControllerSpec that the command line uses."""

    name: str
    aliases: tuple[str, ...] = ()
    on_by_default: bool = True
    options: type[ControllerOptions] | None = None
    checks: tuple[Check, ...] = ()


# In upstream's start order.
UNBUILT: tuple[UnbuiltController, ...] = (UnbuiltController(name="resourcepoolstatusrequest-controller"),)


def not_built(chosen: Sequence[str], built: Collection[str]) -> tuple[str, ...]:
    """Return the controllers that --controllers requests and this release does not have.

    chosen: the list of --controllers, with its aliases resolved.
    built: names of the built controllers, including those of installed packages.
    """
    return tuple(
        controller.name
        for controller in UNBUILT
        if controller.name not in built and is_enabled(controller.name, chosen, on_by_default=controller.on_by_default)
    )
