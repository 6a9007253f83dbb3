"""TLS for what we serve: the operator's certificate, or one that we sign ourselves for localhost."""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runtime.process.files import write_private

PAIR_NAME = "kube-controller-manager"
LIFE = timedelta(days=365)
BACKDATE = timedelta(hours=1)  # for readers whose clock is behind ours
MIN_VERSIONS = {
    "": ssl.TLSVersion.TLSv1_2,
    # OpenSSL's own policy may still refuse the first two, as Go's does not.
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}


class CertificateError(Exception):
    """A certificate or key cannot be used; the text names the file and says why."""


def server_context(*, certificate: str, key: str, directory: str, now: float, min_version: str = "") -> ssl.SSLContext:
    """A context to serve with. Raises CertificateError.

    certificate, key: PEM files. Where they are "": <directory>/kube-controller-manager.crt and .key, made when they are
    missing; where the directory is "" too: a self-signed pair that is kept nowhere. now: Unix seconds.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = MIN_VERSIONS[min_version]
    context.set_alpn_protocols(["http/1.1"])
    if certificate:
        return _load(context, Path(certificate), Path(key))
    if directory:
        pair = Path(directory) / f"{PAIR_NAME}.crt", Path(directory) / f"{PAIR_NAME}.key"
        if not (pair[0].exists() and pair[1].exists()):
            _make(*pair, now=now)
        return _load(context, *pair)
    # Python's ssl reads files only; these are removed before the first request is served.
    with tempfile.TemporaryDirectory(prefix="kcm-") as passing:
        pair = Path(passing) / "tls.crt", Path(passing) / "tls.key"
        _make(*pair, now=now)
        return _load(context, *pair)


def _load(context: ssl.SSLContext, certificate: Path, key: Path) -> ssl.SSLContext:
    for path in (certificate, key):
        try:
            path.read_bytes()
        except OSError as error:
            raise CertificateError(f"{path}: {error.strerror}") from error
    try:
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise CertificateError(f"{certificate} and {key} are no certificate and its key: {error}") from error
    return context


def _make(certificate: Path, key: Path, *, now: float) -> None:
    try:
        certificate.parent.mkdir(parents=True, exist_ok=True)
        pair = self_signed(now=now)
        write_private(key, pair[1])
        write_private(certificate, pair[0])
    except OSError as error:
        raise CertificateError(f"{certificate.parent}: {error.strerror}") from error


def self_signed(*, now: float) -> tuple[bytes, bytes]:
    """Certificate and key, PEM, for localhost and 127.0.0.1."""
    at = datetime.fromtimestamp(now, tz=UTC)
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"localhost@{int(now)}")])
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - BACKDATE)
        .not_valid_after(at + LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(private.public_key()), critical=False)
        .add_extension(_key_usage(), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    return (
        certificate.public_bytes(encoding),
        private.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _key_usage() -> x509.KeyUsage:
    """It serves, and it is its own authority."""
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
