"""Names and flags of upstream's controllers that are not built yet. All controllers of Kubernetes 1.36 are built.

A controller of a later release is listed here until it is built (docs/next-release.md): --controllers accepts its name,
and its flags are validated as upstream and reported to have no effect. Then its entry moves to its own file or folder.

Source: kubernetes v1.36 cmd/kube-controller-manager/names/controller_names.go.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from kcm.actors.options import Check, ControllerOptions
from kcm.actors.options.known_controllers import is_enabled


class UnbuiltController(Struct, frozen=True, kw_only=True):
    """The part of a ControllerSpec that the command line uses."""

    name: str
    aliases: tuple[str, ...] = ()
    on_by_default: bool = True
    options: type[ControllerOptions] | None = None
    checks: tuple[Check, ...] = ()


UNBUILT: tuple[UnbuiltController, ...] = ()  # in upstream's start order


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
