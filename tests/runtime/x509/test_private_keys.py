from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kcm.runtime.x509.private_keys import private_key_of_der, private_key_of_pem


def test_rsa_key_must_have_exponents_of_its_factors() -> None:
    key = rsa.generate_private_key(65537, 1024)
    form = PrivateFormat.TraditionalOpenSSL, NoEncryption()
    assert private_key_of_pem(key.private_bytes(Encoding.PEM, *form)).public_key() == key.public_key()
    numbers = key.private_numbers()
    other = numbers.d + 2
    wrong = rsa.RSAPrivateNumbers(
        numbers.p,
        numbers.q,
        other,
        other % (numbers.p - 1),
        other % (numbers.q - 1),
        numbers.iqmp,
        numbers.public_numbers,
    ).private_key(unsafe_skip_rsa_key_validation=True)
    with pytest.raises(ValueError, match="crypto/rsa: invalid exponents"):
        private_key_of_der(wrong.private_bytes(Encoding.DER, *form))
