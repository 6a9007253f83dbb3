"""certificatesigningrequest-signing-controller: signs what was approved for the signers of Kubernetes."""

from __future__ import annotations

from kcm.actors.controllers.certificates.signing.options import SigningOptions
from kcm.actors.controllers.certificates.signing.spec import SPEC

__all__ = ["SPEC", "SigningOptions"]
