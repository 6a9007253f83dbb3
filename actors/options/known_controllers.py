"""Controllers on the command line: names, aliases and flags, and the evaluation of --controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from kcm.actors.options.controller_options import ControllerOptions
from kcm.actors.options.table import Options
from kcm.runtime.flags.declaration import Flag, flags_in

Check = Callable[[Options], Iterable[str]]  # returns the errors in the options, one line each, with upstream's texts


class Named(Protocol):
    """Names of a controller.

    name: canonical, as in logs and health checks.
    aliases: further names that --controllers accepts.
    """

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...
    @property
    def on_by_default(self) -> bool: ...


class KnownController(Named, Protocol):
    """The part of a ControllerSpec that the command line uses.

    options: its flags, in a section with its name.
    checks: validation of options, which also runs if the controller is disabled.
    """

    @property
    def options(self) -> type[ControllerOptions] | None: ...
    @property
    def checks(self) -> tuple[Check, ...]: ...


def in_order(controllers: Iterable[KnownController]) -> list[KnownController]:
    """Sort controllers by their blocks in /configz. Those without a block are last, in the given order."""

    def place(controller: KnownController) -> tuple[bool, str]:
        block = controller.options.configz_block if controller.options is not None else ""
        return not block, block

    return sorted(controllers, key=place)


def flags_of_controllers(controllers: Iterable[KnownController]) -> list[Flag]:
    """Return the flags of these controllers by section."""
    flags: dict[type, tuple[Flag, ...]] = {}
    for controller in in_order(controllers):
        group = controller.options
        if group is not None and group not in flags:  # two specs may have the same options
            flags[group] = flags_in(group, section=controller.name, config=group.configz_block)
    return [flag for section in flags.values() for flag in section]


def aliases_of(controllers: Iterable[Named]) -> dict[str, str]:
    """Return canonical names by alias. Raises ValueError if two controllers have the same alias."""
    controllers = tuple(controllers)
    canonical = {controller.name for controller in controllers}
    known: dict[str, str] = {}
    for controller in controllers:
        for alias in controller.aliases:
            if alias in known or alias in canonical:
                raise ValueError(f"the alias {alias!r} of {controller.name} is taken")
            known[alias] = controller.name
    return known


def is_enabled(name: str, chosen: Sequence[str], *, on_by_default: bool) -> bool:
    """Report whether a list of --controllers, with aliases resolved, enables a controller.

    The first item that names the controller decides, else "*".

    Source: kubernetes v1.36 staging/src/k8s.io/controller-manager/app/helper.go, IsControllerEnabled.
    """
    star = False
    for item in chosen:
        if item == name:
            return True
        if item == f"-{name}":
            return False
        star = star or item == "*"
    return star and on_by_default
