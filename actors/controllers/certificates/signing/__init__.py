"""certificatesigningrequest-signing-controller: signs what was approved for the signers of Kubernetes."""

from __future__ import annotations

from actors.controllers.certificates.signing.options import SigningOptions
from actors.controllers.certificates.signing.spec import SPEC

__all__ = ["SPEC", "SigningOptions"]
