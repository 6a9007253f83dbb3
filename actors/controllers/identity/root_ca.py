"""Reading of the root certificates with which clients in the cluster verify the API server.

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
    """Raised if --root-ca-file cannot be read or contains no valid certificates. Its text names the file."""


def root_ca(context: ControllerContext) -> bytes:
    """Return the root certificates to publish, in PEM: the content of --root-ca-file.

    Without the flag, this is certificate-authority-data of the kubeconfig, or b"" if that field is not set. The field
    certificate-authority, which names a file, is ignored.

    The file is read when a controller is built, and not again while it runs. Raises RootCaUnusableError.
    """
    path = context.options[ServiceAccountOptions].root_ca_file
    return _read(path) if path else context.authority


def check_root_ca(options: Options) -> Iterator[str]:
    """Yield an error text if --root-ca-file is set but unusable, as a start check."""
    path = options[ServiceAccountOptions].root_ca_file
    if path:
        try:
            _read(path)
        except RootCaUnusableError as err:
            yield str(err)


def check_certificates(pem: bytes) -> None:
    """Raise ValueError if the PEM text contains no certificate, or a malformed certificate.

    Source: client-go/util/cert/pem.go, ParseCertsPEM.
    """
    from cryptography import x509  # slow to import, and most runs do not set the flag

    certificates = [block for block in blocks(pem) if block.type == "CERTIFICATE" and not block.has_headers]
    for certificate in certificates:
        x509.load_der_x509_certificate(certificate.data)
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
