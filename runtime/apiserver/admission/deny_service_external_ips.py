"""DenyServiceExternalIPs: reject new external IPs of Services.

Source: kubernetes plugin/pkg/admission/network/denyserviceexternalips/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import RoutedRequest

SERVICES = "services"


def validate(call: RoutedRequest, new: Object, old: Object | None = None) -> None:
    """Check that a Service has no external IP that the old Service does not have. Raises StatusError (403)."""
    if call.definition.storage != SERVICES or call.route.subresource:
        return
    before = set() if old is None else {*(old["spec"].get("externalIPs") or ())}
    if not before.issuperset(new["spec"].get("externalIPs") or ()):
        raise forbidden("", SERVICES, new, "Use of external IPs is denied by admission control")
