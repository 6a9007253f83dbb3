"""PEM files, read as Go's encoding/pem reads them: broken blocks, and what stands between blocks, are passed over."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLOCK = re.compile(
    rb"^-----BEGIN (?P<label>[^\n]*?)-----[ \t]*\r?\n(?P<body>.*?)^-----END (?P=label)-----[ \t]*\r?$",
    re.MULTILINE | re.DOTALL,
)
_HEADERS = re.compile(rb"(?:[^\n:]*:[^\n]*\n)+[ \t]*\r?\n")


@dataclass(frozen=True, slots=True)
class Block:
    """label: "CERTIFICATE", say. has_headers: lines like "Proc-Type: 4,ENCRYPTED" stand before its content."""

    label: str
    der: bytes
    has_headers: bool = False


def blocks(pem: bytes) -> Iterator[Block]:
    for found in _BLOCK.finditer(pem):
        body = found["body"]
        headers = _HEADERS.match(body)
        if headers is not None:
            body = body[headers.end() :]
        try:
            der = base64.b64decode(b"".join(body.split()), validate=True)
        except binascii.Error:
            continue
        yield Block(found["label"].decode("latin-1"), der, headers is not None)


def check_certificates(pem: bytes) -> None:
    """Raises ValueError if there is no certificate in it, or one that cannot be read.

    Source: kubernetes v1.36 client-go/util/cert/pem.go, ParseCertsPEM.
    """
    from cryptography import x509

    certificates = [one for one in blocks(pem) if one.label == "CERTIFICATE" and not one.has_headers]
    for one in certificates:
        x509.load_der_x509_certificate(one.der)
    if not certificates:
        raise ValueError("data does not contain any valid RSA or ECDSA certificates")
