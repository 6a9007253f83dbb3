"""The key that signs tokens in simulated runs: always the same, so that a run replays to the byte."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from kcm.runtime.signing.tokens import SigningKey, read_signing_key

NUMBER = 0x6B636D  # which key of the curve it is: no secret


@cache
def key_file() -> str:
    """A PEM file that is there as long as the process."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, derive_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = derive_private_key(NUMBER, SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    directory = _directory()
    path = Path(directory.name) / "service-account.key"
    path.write_bytes(pem)
    return str(path)


@cache
def _directory() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kcm-simulated-")


@cache
def signing_key() -> SigningKey:
    return read_signing_key(key_file())
