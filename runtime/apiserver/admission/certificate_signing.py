"""CertificateSigning: require permission to sign for the signer of a CertificateSigningRequest.

Source: kubernetes plugin/pkg/admission/certificates/signing/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.certificate_approval import REQUESTS
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.registry.users import may_use_signer

_SIGNED = ("certificate", "conditions")


def validate_update(cluster: Cluster, call: RoutedRequest, new: Object, old: Object) -> None:
    """Check that a user who changes the certificate or the conditions of the status may sign for the signer.

    Raises StatusError (403).
    """
    definition = call.definition
    if definition.storage != REQUESTS or call.route.subresource != "status":
        return
    now, before = new.get("status") or {}, old.get("status") or {}
    if all((now.get(part) or None) == (before.get(part) or None) for part in _SIGNED):
        return
    signer = old["spec"].get("signerName", "")
    if not may_use_signer(cluster.authorize, call.user, "sign", signer):
        because = f'user not permitted to sign requests with signerName "{signer}"'
        raise forbidden(definition.group, definition.plural, old, because)
