"""CertificateSigningRequest signer: issues certificates for approved requests, for the four kubernetes.io signers."""

from __future__ import annotations

from kcm.actors.controllers.certificates.signing.options import SigningOptions
from kcm.actors.controllers.certificates.signing.spec import SPEC

__all__ = ["SPEC", "SigningOptions"]
