"""Key that signs service account tokens in simulated runs. It is constant, so that a replay has the same tokens."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from kcm.runtime.signing.tokens import SigningKey, read_signing_key

NUMBER = 0x6B636D  # private value of the elliptic curve key; it is not secret


@cache
def key_file() -> str:
    """Write the key to a temporary PEM file, which is removed at the end of the process, and return its path."""
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
