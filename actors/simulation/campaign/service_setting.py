"""The setting of seeded runs about Services: workloads, and what says where their pods are to be found."""

from __future__ import annotations

from kcm.actors.controllers.network import endpoints, endpointslice, endpointslice_mirroring
from kcm.actors.options import Options
from kcm.actors.simulation.campaign.flags import given
from kcm.actors.simulation.campaign.setting import WORKLOADS, Setting

OF_SERVICES = (endpoints.SPEC, endpointslice.SPEC, endpointslice_mirroring.SPEC)
BATCHES = ("--endpointslice-updates-batch-period=500ms", "--endpoint-updates-batch-period=500ms")
FLAGS = (["--max-endpoints-per-slice=2"], ["--max-endpoints-per-slice=3"], [*BATCHES])


def options_of(scenario: int) -> Options:
    """Slices are soon full; now and then changes of pods are gathered."""
    return given(*FLAGS[scenario % len(FLAGS)])


SERVICES_TOO = Setting(
    name="services",
    controllers=(*WORKLOADS, *OF_SERVICES),
    options=options_of,
)
