"""Outcomes with which an API server refuses to create a pod."""

from __future__ import annotations

from protocols.messages.outcomes import Forbidden
from protocols.objects import encode_object

QUOTA_EXCEEDED = Forbidden('pods "web-" is forbidden: exceeded quota: small')
NAMESPACE_TERMINATING = Forbidden(
    'pods "web-" is forbidden: unable to create new content in namespace default because it is being terminated',
    encode_object(
        {"kind": "Status", "status": "Failure", "details": {"causes": [{"reason": "NamespaceTerminating"}]}},
    ),
)
