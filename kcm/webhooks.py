"""Declarations of webhooks that validate, mutate and convert objects, and what their functions receive and raise."""

from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.reconciliation.webhooks import (
    AdmissionRequest,
    AdmissionWebhook,
    Denied,
    UserInfo,
    VersionConversion,
    convert,
    mutate,
    validate,
)
from kcm.runtime.x509.key_rings import CertificateLives

__all__ = [
    "AdmissionRequest",
    "AdmissionWebhook",
    "CertificateLives",
    "Denied",
    "UserInfo",
    "VersionConversion",
    "WebhookServing",
    "convert",
    "mutate",
    "validate",
]
