"""Declarations of webhooks that validate, mutate and convert objects, and what their functions receive and raise."""

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

__all__ = [
    "AdmissionRequest",
    "AdmissionWebhook",
    "Denied",
    "UserInfo",
    "VersionConversion",
    "convert",
    "mutate",
    "validate",
]
