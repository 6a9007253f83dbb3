"""CertificateApproval: require permission to approve for the signer of a CertificateSigningRequest.

Source: kubernetes plugin/pkg/admission/certificates/approval/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.registry.users import may_use_signer

REQUESTS = "certificatesigningrequests.certificates.k8s.io"


def validate_update(cluster: Cluster, call: RoutedRequest, old: Object) -> None:
    """Check that a user who approves or denies a CertificateSigningRequest has the permission for its signer.

    Raises StatusError (403).
    """
    definition = call.definition
    if definition.storage != REQUESTS or call.route.subresource != "approval":
        return
    signer = old["spec"].get("signerName", "")
    if not may_use_signer(cluster.authorize, call.user, "approve", signer):
        because = f'user not permitted to approve requests with signerName "{signer}"'
        raise forbidden(definition.group, definition.plural, old, because)
