"""EndpointSlice controller: writes the EndpointSlices of Services that have a selector."""

from __future__ import annotations

from kcm.actors.controllers.network.endpointslice.options import EndpointSliceOptions
from kcm.actors.controllers.network.endpointslice.spec import SPEC

__all__ = ["SPEC", "EndpointSliceOptions"]
