"""EndpointSlice mirroring controller: writes EndpointSlices for Endpoints of Services without a selector."""

from __future__ import annotations

from kcm.actors.controllers.network.endpointslice_mirroring.options import EndpointSliceMirroringOptions
from kcm.actors.controllers.network.endpointslice_mirroring.spec import SPEC

__all__ = ["SPEC", "EndpointSliceMirroringOptions"]
