"""A command line read for the controllers that there are: for run-kcm, its journal, and programs that embed us."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.controllers.built_in import BUILT_IN
from actors.options import Options, parse_options
from actors.reconciliation.controller_names import UPSTREAM, ControllerName, aliases_of
from actors.reconciliation.specs import ControllerSpec


def read_options(arguments: Sequence[str], *, controllers: Iterable[ControllerSpec] = BUILT_IN) -> Options:
    """What these flags of run-kcm say; --controllers may name these controllers, and all of upstream's.

    Raises FlagError when a flag cannot be read, InvalidOptions when what they say cannot be, ValueError if two
    controllers claim one alias.
    """
    names = known_names(controllers)
    return parse_options(arguments, known_controllers={name.canonical for name in names}, aliases=aliases_of(names))


def known_names(controllers: Iterable[ControllerSpec]) -> tuple[ControllerName, ...]:
    """Upstream's, and then of these controllers those that are not among them."""
    upstream = {name.canonical for name in UPSTREAM}
    own = [ControllerName(spec.name, spec.aliases, spec.on_by_default) for spec in controllers]
    return (*UPSTREAM, *(name for name in own if name.canonical not in upstream))
