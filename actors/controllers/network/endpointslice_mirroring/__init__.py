"""endpointslice-mirroring-controller: EndpointSlices for Endpoints that people write themselves."""

from __future__ import annotations

from kcm.actors.controllers.network.endpointslice_mirroring.options import EndpointSliceMirroringOptions
from kcm.actors.controllers.network.endpointslice_mirroring.spec import SPEC

__all__ = ["SPEC", "EndpointSliceMirroringOptions"]
