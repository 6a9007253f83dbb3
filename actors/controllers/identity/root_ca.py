"""The certificates that clients inside of the cluster are to trust the API server by.

Source: kubernetes v1.36 cmd/kube-controller-manager/app/{certificates,controllermanager}.go,
getKubeAPIServerCAFileContents and readCA.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kcm.actors.controllers.identity.options import ServiceAccountOptions
from kcm.actors.options import Options
from kcm.actors.reconciliation.specs import ControllerContext
from kcm.runtime.x509.pem import blocks


class RootCaUnusableError(Exception):
    """--root-ca-file holds no certificates; one line that names it."""


def root_ca(context: ControllerContext) -> bytes:
    """What --root-ca-file holds, PEM. Without the flag, the authority that the client's configuration has in place:
    b"" where it names a file, or none.

    Read each time that a controller is built, and not again while it runs. Raises RootCaUnusableError.
    """
    path = context.options[ServiceAccountOptions].root_ca_file
    return _read(path) if path else context.authority


def check_root_ca(options: Options) -> Iterator[str]:
    path = options[ServiceAccountOptions].root_ca_file
    if path:
        try:
            _read(path)
        except RootCaUnusableError as err:
            yield str(err)


def check_certificates(pem: bytes) -> None:
    """Raises ValueError if there is no certificate in it, or one that cannot be read.

    Source: client-go/util/cert/pem.go, ParseCertsPEM.
    """
    from cryptography import x509  # heavy, and few runs name a file

    certificates = [one for one in blocks(pem) if one.type == "CERTIFICATE" and not one.has_headers]
    for one in certificates:
        x509.load_der_x509_certificate(one.data)
    if not certificates:
        raise ValueError("data does not contain any valid RSA or ECDSA certificates")


def _read(path: str) -> bytes:
    try:
        pem = Path(path).read_bytes()
        check_certificates(pem)
    except OSError as err:
        why = f"open {path}: {(err.strerror or str(err)).lower()}"
    except ValueError as err:
        why = str(err)
    else:
        return pem
    raise RootCaUnusableError(f"error parsing root-ca-file at {path}: {why}")
