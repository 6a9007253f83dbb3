"""Endpoints controller: writes the Endpoints of Services that have a selector."""

from __future__ import annotations

from kcm.actors.controllers.network.endpoints.options import EndpointsOptions
from kcm.actors.controllers.network.endpoints.spec import SPEC

__all__ = ["SPEC", "EndpointsOptions"]
