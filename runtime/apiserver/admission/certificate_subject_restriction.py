"""CertificateSubjectRestriction: reject requests for client certificates of the group system:masters.

Source: kubernetes plugin/pkg/admission/certificates/subjectrestriction/admission.go (v1.36).
"""

from __future__ import annotations

import base64

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.certificate_approval import REQUESTS
from kcm.runtime.apiserver.admission.refusal import forbidden
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.users import MASTERS

RESTRICTED = "kubernetes.io/kube-apiserver-client"


def validate_create(definition: ResourceDefinition, obj: Object) -> None:
    """Refuse a new CertificateSigningRequest for a client certificate with the organization system:masters.

    Raises StatusError (403).
    """
    if definition.storage != REQUESTS or obj["spec"].get("signerName") != RESTRICTED:
        return
    from kcm.runtime.x509.requests import facts_of, parse_request  # heavy: cryptography

    if MASTERS in facts_of(parse_request(base64.b64decode(obj["spec"]["request"]))).organizations:
        because = f"use of {RESTRICTED} signer with {MASTERS} group is not allowed"
        raise forbidden(definition.group, definition.plural, obj, because)
