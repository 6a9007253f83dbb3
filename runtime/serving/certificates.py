"""Serving certificates: the operator's, or self-signed certificates for localhost that are renewed automatically."""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcm.runtime.process.files import write_private
from kcm.runtime.serving.tls_names import TlsError
from kcm.runtime.x509.certificates import (
    LEAF_LIFE,
    RENEW_BEFORE,
    certificate_builder,
    key_pem,
    key_usage,
    new_key,
    subject_name,
)

PAIR_NAME = "kube-controller-manager"
OURS = "localhost@"  # prefix of the common name of a self-signed certificate

RESPONSE_WITHIN = 5.0  # seconds

Stamp = tuple[object, ...]  # equal stamps mean equal content


class ServingPair(Protocol):
    """Certificate and its key, in files or in memory."""

    def stamp(self) -> Stamp:
        """Return a value that changes with the pair.

        Must be cheap, because every handshake calls it. Raises TlsError.
        """

    def load(self, context: ssl.SSLContext) -> x509.Certificate:
        """Load the pair into a context, and return the certificate. After a TlsError the context must not be used."""


class PairInFiles:
    """Operator's PEM files, which are read again when they have changed."""

    def __init__(self, certificate: str, key: str) -> None:
        self._certificate, self._key = Path(certificate), Path(key)

    def stamp(self) -> Stamp:
        return file_stamp(self._certificate), file_stamp(self._key)

    def load(self, context: ssl.SSLContext) -> x509.Certificate:
        content = read_file(self._certificate)
        read_file(self._key)

        def passphrase() -> str:  # otherwise OpenSSL prompts on the terminal
            raise TlsError(f"{self._key}: it is encrypted, which is not supported")

        try:
            context.load_cert_chain(self._certificate, self._key, password=passphrase)
            return x509.load_pem_x509_certificate(content)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise TlsError(f"{self._certificate} and {self._key} are not a certificate and its key: {error}") from error


class PairInDirectory:
    """Pair in the files kube-controller-manager.crt and .key of a directory.

    The files are created if they are missing, and renewed if kcm has signed them itself.
    """

    def __init__(self, directory: str, *, now: Callable[[], float]) -> None:
        self._certificate, self._key = (Path(directory) / f"{PAIR_NAME}.{ending}" for ending in ("crt", "key"))
        self._files, self._now = PairInFiles(str(self._certificate), str(self._key)), now
        self._known: Stamp | None = None
        self._due: datetime | None = None  # when to renew; None for an operator's certificate

    def stamp(self) -> Stamp:
        found = self._files.stamp()
        if found != self._known:
            if not (self._certificate.exists() and self._key.exists()):
                self._make()
            self._due = renewal(self._certificate)
        if self._due is not None and _at(self._now()) >= self._due:
            self._make()
            self._due = renewal(self._certificate)
        self._known = self._files.stamp()
        return self._known

    def load(self, context: ssl.SSLContext) -> x509.Certificate:
        return self._files.load(context)

    def _make(self) -> None:
        try:
            self._certificate.parent.mkdir(parents=True, exist_ok=True)
            certificate, key = self_signed(now=self._now())
            write_private(self._key, key)
            write_private(self._certificate, certificate)
        except OSError as error:
            raise TlsError(f"{self._certificate.parent}: {error.strerror}") from error


class PairInMemory:
    """Self-signed pair without files."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._made = 0
        self._due: datetime | None = None
        self._pair = b"", b""

    def stamp(self) -> Stamp:
        at = _at(self._now())
        if self._due is None or at >= self._due:
            self._pair = self_signed(now=self._now())
            self._due = at + LEAF_LIFE - RENEW_BEFORE
            self._made += 1
        return (self._made,)

    def load(self, context: ssl.SSLContext) -> x509.Certificate:
        self.stamp()
        return load_pair_in_memory(context, *self._pair)


def load_pair_in_memory(context: ssl.SSLContext, certificate: bytes, key: bytes) -> x509.Certificate:
    """Load a certificate and its key, both in PEM, into a context. After a TlsError it must not be used."""
    # Python's ssl reads files only; these are deleted before the context is used.
    try:
        with tempfile.TemporaryDirectory(prefix="kcm-") as passing:
            paths = Path(passing) / "tls.crt", Path(passing) / "tls.key"
            for path, content in zip(paths, (certificate, key), strict=True):
                write_private(path, content)
            return PairInFiles(*map(str, paths)).load(context)
    except OSError as error:
        raise TlsError(f"cannot write a temporary file for the serving key: {error.strerror}") from error


def served_certificate(url: str) -> str:
    """Return the certificate with which a server responds, in PEM, without verifying it. Raises OSError."""
    address = urlsplit(url)
    return ssl.get_server_certificate((address.hostname or "", address.port or 0), timeout=RESPONSE_WITHIN)


def file_stamp(path: Path) -> Stamp | None:
    """Return time, size and inode; None if the file is missing or not accessible."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def read_file(path: Path) -> bytes:
    """Read a file. Raises TlsError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsError(f"{path}: {error.strerror}") from error


def renewal(certificate: Path) -> datetime | None:
    """Return when to renew a certificate; None if it is missing or was not signed by kcm."""
    try:
        found = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return None
    names = [str(name.value) for name in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    ours = found.issuer == found.subject and any(name.startswith(OURS) for name in names)
    return found.not_valid_after_utc - RENEW_BEFORE if ours else None


def self_signed(*, now: float) -> tuple[bytes, bytes]:
    """Return a new certificate for localhost and 127.0.0.1, and its key, both in PEM."""
    key, name = new_key(), subject_name(f"{OURS}{int(now)}")
    names: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    ]
    certificate = (
        certificate_builder(name, name, key, at=_at(now), life=LEAF_LIFE)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        # Usages of a serving certificate that is its own authority.
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key_pem(key)


def _at(now: float) -> datetime:
    return datetime.fromtimestamp(now, tz=UTC)
