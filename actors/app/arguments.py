"""A command line read for the controllers that there are: for run-kcm, its journal, and programs that embed us."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.controllers.unbuilt import UNBUILT
from kcm.actors.options import Options, parse_options
from kcm.actors.reconciliation.specs import ControllerSpec, checked_specs
from kcm.protocols.arguments import check_sequence


def read_options(arguments: Sequence[str], *, controllers: Iterable[ControllerSpec] = BUILT_IN) -> Options:
    """What these flags of run-kcm say; they may name these controllers, and upstream's that are not built yet.

    Raises FlagError when a flag cannot be read, InvalidOptionsError when what they say cannot be, ValueError if two
    controllers claim one alias or flag.
    """
    check_sequence("read_options", arguments, 'a list of flags, as ["--kube-api-qps=50"]')
    specs = checked_specs("controllers of read_options", controllers)
    taken = {spec.name for spec in specs}
    return parse_options(arguments, controllers=specs, unbuilt=[one for one in UNBUILT if one.name not in taken])
