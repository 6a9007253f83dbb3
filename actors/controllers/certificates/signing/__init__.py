"""CertificateSigningRequest signer: issues the certificates of approved requests that name a kubernetes.io signer."""

from __future__ import annotations

from kcm.actors.controllers.certificates.signing.options import SigningOptions
from kcm.actors.controllers.certificates.signing.spec import SPEC

__all__ = ["SPEC", "SigningOptions"]
