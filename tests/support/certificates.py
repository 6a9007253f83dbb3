"""Certificates for tests, and handshakes without a network."""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class Pair:
    """Certificate and its key in PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Certificate authority whose certificates are files in a directory."""

    def __init__(self, directory: Path, name: str = "authority", *, signed_by: Authority | None = None) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._subject = subject
        issuer = self if signed_by is None else signed_by
        self.certificate = issuer._signed(
            subject, self._key, [(x509.BasicConstraints(ca=True, path_length=None), True)], life=timedelta(days=3650)
        )
        self.file = directory / f"{name}.crt"
        self.file.write_bytes(self.certificate.public_bytes(PEM))

    def issue(
        self,
        common_name: str,
        *,
        names: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
        end: datetime | None = None,
        use_rsa: bool = False,
        file: str = "",
    ) -> Pair:
        """Issue a certificate and write it and its key into files.

        names: DNS names of a server; without names the certificate is for a client.
        file: name of both files without extension; the common name by default.
        """
        key = rsa.generate_private_key(65537, 2048) if use_rsa else ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        if common_name:
            attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage([usage]), False)]
        if names:
            extensions.append((x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), False))
        certificate = self._signed(x509.Name(attributes), key, extensions, end=end)
        pair = Pair(*(self._directory / f"{file or common_name}.{ending}" for ending in ("pem", "key")))
        pair.certificate.write_bytes(certificate.public_bytes(PEM))
        form = serialization.PrivateFormat.PKCS8
        pair.key.write_bytes(key.private_bytes(PEM, form, serialization.NoEncryption()))
        return pair

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
        *,
        life: timedelta = timedelta(days=30),
        end: datetime | None = None,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))
            .not_valid_after(end or now + life)
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(self._key, hashes.SHA256())


def client_context(*, trusts: Path | None = None, pair: Pair | None = None) -> ssl.SSLContext:
    """Return the TLS settings of a client. trusts: file of authorities; None accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trusts is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(trusts)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def handshake(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    *,
    name: str | None = "localhost",
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Return both ends of a connection, the client's first. name: sent by the client (SNI). Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=name, session=session)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    for _ in range(10):
        for end in list(waiting):
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
                waiting.remove(end)
    assert not waiting
    theirs.write(b"hello")  # with TLS 1.3 the client receives a refusal, or its tickets, only now
    with contextlib.suppress(ssl.SSLWantReadError):
        ours.read()
    return ours, theirs


def served_subject(server: ssl.SSLContext, name: str | None = "localhost") -> str:
    """Return the common name of the certificate that the server presents for a name."""
    shown = handshake(server, client_context(), name=name)[0].getpeercert(binary_form=True)
    assert shown is not None
    (attribute,) = x509.load_der_x509_certificate(shown).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(attribute.value)
