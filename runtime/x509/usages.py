"""Usages of certificates, as the API names them.

Source: kubernetes v1.36 pkg/controller/certificates/authority/policies.go, staging/src/k8s.io/api/certificates/v1/
types.go; object identifiers: RFC 5280, and Go's crypto/x509.
"""

from __future__ import annotations

from collections.abc import Mapping

# Name → the number of its bit in the keyUsage extension.
KEY_USAGES: Mapping[str, int] = {
    "signing": 0,
    "digital signature": 0,
    "content commitment": 1,
    "key encipherment": 2,
    "data encipherment": 3,
    "key agreement": 4,
    "cert sign": 5,
    "crl sign": 6,
    "encipher only": 7,
    "decipher only": 8,
}
# Name → object identifier in the extKeyUsage extension, in the order in which a certificate has them.
EXTENDED_KEY_USAGES: Mapping[str, str] = {
    "any": "2.5.29.37.0",
    "server auth": "1.3.6.1.5.5.7.3.1",
    "client auth": "1.3.6.1.5.5.7.3.2",
    "code signing": "1.3.6.1.5.5.7.3.3",
    "email protection": "1.3.6.1.5.5.7.3.4",
    "s/mime": "1.3.6.1.5.5.7.3.4",
    "ipsec end system": "1.3.6.1.5.5.7.3.5",
    "ipsec tunnel": "1.3.6.1.5.5.7.3.6",
    "ipsec user": "1.3.6.1.5.5.7.3.7",
    "timestamping": "1.3.6.1.5.5.7.3.8",
    "ocsp signing": "1.3.6.1.5.5.7.3.9",
    "microsoft sgc": "1.3.6.1.4.1.311.10.3.3",
    "netscape sgc": "2.16.840.1.113730.4.1",
}
ALL_USAGES = frozenset({*KEY_USAGES, *EXTENDED_KEY_USAGES})
