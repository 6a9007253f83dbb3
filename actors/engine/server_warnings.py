"""Log of the API server's warnings about requests (Warning headers), as in client-go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MOST_REMEMBERED = 512  # warnings, so that each is logged once; the oldest is forgotten first


class ServerWarnings:
    """Log of the server's warnings, each once per client and resource.

    Shared by a system; used on the transport's thread.
    """

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._logged: dict[tuple[str, str, str], None] = {}

    def log(self, warnings: Iterable[str], *, client: str, resource: str, request: str, is_write: bool = True) -> None:
        """Log new warnings: as a warning for a write, and as info from -v=2 on for a read.

        A warning about a write concerns the written object. A warning about a read concerns the API that this program
        uses (deprecated Endpoints, for example), which an operator cannot change.

        client: sender of the request.
        resource: Resource.id.
        request: description, "patch configmaps default/web".
        """
        for warning in warnings:
            place = client, resource, warning
            if place in self._logged:
                continue
            if len(self._logged) >= MOST_REMEMBERED:
                del self._logged[next(iter(self._logged))]
            self._logged[place] = None
            if is_write:
                self._log.warning("API server warning", client=client, request=request, warning=warning)
            else:
                self._log.info("API server warning", v=2, client=client, request=request, warning=warning)
