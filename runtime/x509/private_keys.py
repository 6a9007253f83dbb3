"""Private keys in PEM and DER, with the validation of Go's crypto/rsa.

Source: Go's crypto/rsa, PrivateKey.Validate. The library cryptography would also test whether the factors are prime,
which takes 30 ms for a key of 2048 bits: more than a tenth of the start of the manager for each file.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key


def private_key_of_pem(pem: bytes) -> PrivateKeyTypes:
    """Return the key of a PEM block. Raises ValueError, TypeError or UnsupportedAlgorithm if it is unusable."""
    return _validated(load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True))


def private_key_of_der(der: bytes) -> PrivateKeyTypes:
    """Return a key in DER. Raises ValueError, TypeError or UnsupportedAlgorithm if it is unusable."""
    return _validated(load_der_private_key(der, password=None, unsafe_skip_rsa_key_validation=True))


def _validated(key: PrivateKeyTypes) -> PrivateKeyTypes:
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        modulus, exponent = numbers.public_numbers.n, numbers.public_numbers.e
        factors = (numbers.p, numbers.q)
        if min(factors) <= 1 or numbers.p * numbers.q != modulus:
            raise ValueError("crypto/rsa: invalid modulus")
        if any(numbers.d * exponent % (factor - 1) != 1 for factor in factors):
            raise ValueError("crypto/rsa: invalid exponents")
    return key
