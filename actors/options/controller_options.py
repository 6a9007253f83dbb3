"""Options of single controllers, which each controller declares beside its reconciler.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class JobOptions(ControllerOptions):
        configz_block = "JobController"

        concurrent_syncs: int = flag(
            5, "Jobs synced at once.", name="concurrent-job-syncs", config="ConcurrentJobSyncs"
        )

A spec names the class (`options=JobOptions`); `options[JobOptions]` is then what the command line says, as a
JobOptions. Sections of --help, blocks of /configz and checks are in the order of these blocks, as upstream's are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, ClassVar, Protocol

from kcm.actors.options.controller_names import Named
from kcm.runtime.flags.declaration import Flag, flags_in

if TYPE_CHECKING:
    from kcm.actors.options.table import Options


class ControllerOptions:
    """Base of a frozen dataclass whose every field is declared with flag().

    configz_block: where its flags' config names stand in /configz; it also gives the place of its section in --help.
    """

    __slots__ = ()
    configz_block: ClassVar[str] = ""


Check = Callable[["Options"], Iterable[str]]  # what is wrong with the options, a line each, in upstream's words


class KnownController(Named, Protocol):
    """What the command line has to know of a controller, be it built or not: a ControllerSpec is one.

    options: its flags, in a section under its name. checks: also run where the controller is switched off.
    """

    @property
    def options(self) -> type[ControllerOptions] | None: ...
    @property
    def checks(self) -> tuple[Check, ...]: ...


def in_order(controllers: Iterable[KnownController]) -> list[KnownController]:
    """By their blocks in /configz; those that have none stand last, in the order given."""

    def place(controller: KnownController) -> tuple[bool, str]:
        block = controller.options.configz_block if controller.options is not None else ""
        return not block, block

    return sorted(controllers, key=place)


def flags_of_controllers(built: Iterable[KnownController], unbuilt: Iterable[KnownController]) -> list[Flag]:
    """Section by section. Flags of what is not built are accepted and do nothing yet."""
    pending = tuple(unbuilt)
    flags: dict[type, tuple[Flag, ...]] = {}
    for controller in in_order((*built, *pending)):
        group = controller.options
        if group is not None and group not in flags:  # two specs may have the same options
            flags[group] = flags_in(
                group,
                section=controller.name,
                pending=any(controller is one for one in pending),
                config=group.configz_block,
            )
    return [flag for section in flags.values() for flag in section]
