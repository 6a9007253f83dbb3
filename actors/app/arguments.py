"""Parser of run-kcm's flags for a set of controllers, for run-kcm itself, its journal and embedding programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kcm.actors.controllers.built_in import BUILT_IN
from kcm.actors.options import Options, OtherProgram, parse_options
from kcm.actors.reconciliation.specs import ControllerSpec, checked_specs, clusters_of
from kcm.protocols.arguments import check_sequence


def read_options(
    arguments: Sequence[str],
    *,
    controllers: Iterable[ControllerSpec] = BUILT_IN,
    other: OtherProgram | None = None,
) -> Options:
    """Parse flags of run-kcm into options.

    controllers: controllers that the flags may name.
    other: the program whose flags these are, if it is not run-kcm; it has only its controllers.

    Raises FlagError for a malformed flag, InvalidOptionsError for invalid values, ValueError if two controllers have
    the same alias or flag.
    """
    check_sequence("read_options", arguments, 'a list of flags, as ["--kube-api-qps=50"]')
    specs = checked_specs("controllers of read_options", controllers)
    if any(spec.admission or spec.conversion for spec in specs):
        from kcm.actors.engine.webhooks.flags import with_webhook_flags  # few programs have webhooks

        specs = with_webhook_flags(specs)
    if clusters_of(specs):
        from kcm.actors.app.cluster_flags import with_cluster_flags  # few programs work on several clusters

        specs = with_cluster_flags(specs)
    return parse_options(arguments, controllers=specs, other=other)
