"""Key that signs tokens in simulated runs. It is constant, so that replays of a run are identical to the byte."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from kcm.runtime.signing.tokens import SigningKey, read_signing_key

NUMBER = 0x6B636D  # the private value of the key; it is not secret


@cache
def key_file() -> str:
    """Write the key to a PEM file that exists as long as the process, and return its path."""
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
