"""TLS to the API server: PEM inline or from files, which are validated, and reloaded when they change."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from kcm.runtime.client.config import ClientConfig, ConfigError, Credential
from kcm.runtime.http.client.tls import TlsMaterial

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CHECK_EVERY = 10.0  # seconds between two checks of the files

_Stamp = tuple[int, int, int]


class TlsFiles:
    """TLS material for new connections, from files. Used on one thread.

    An open connection keeps its material. Files that do not fit together (a new certificate whose key is not written
    yet) are logged and checked again later; meanwhile the previous material stays in use.
    """

    def __init__(self, config: ClientConfig, *, log: FilteringBoundLogger) -> None:
        self._config, self._log = config, log
        materials = (config.ca, config.certificate, config.key)
        self._paths = [pem.path for pem in materials if pem is not None and pem.path]
        self._stamps: list[_Stamp | None] = []
        self._check_at = 0.0
        self._material: TlsMaterial | None = None
        self._credential: Credential | None = None

    def material(self, credential: Credential, now: float) -> TlsMaterial:
        """Return the TLS material, the same object until it changes.

        Raises ConfigError if there is no usable material yet.

        credential: may have a client certificate, which takes precedence over the configured one.
        now: monotonic seconds.
        """
        if self._material is not None and credential is self._credential and now < self._check_at:
            return self._material
        self._check_at = now + CHECK_EVERY
        stamps = [_stamp(path) for path in self._paths]
        if self._material is None or stamps != self._stamps or _differs(credential, self._credential):
            try:
                self._material = tls_material(self._config, credential)
            except ConfigError as err:
                if self._material is None:
                    raise
                self._log.warning("TLS files not reloaded", error=str(err))
                return self._material
            self._stamps = stamps
        self._credential = credential
        return self._material


def tls_material(config: ClientConfig, credential: Credential) -> TlsMaterial:
    """Read and validate the TLS material. Raises ConfigError, which names the field with the unusable PEM."""
    context = ssl.SSLContext(
        ssl.PROTOCOL_TLS_CLIENT
    )  # only for validation, because its errors are more precise than libcurl's
    authority = certificate = key = b""
    if config.verify and config.ca is not None:
        authority = config.ca.read()
        try:
            context.load_verify_locations(cadata=authority.decode("ascii", "replace"))
        except ssl.SSLError as err:
            raise ConfigError(f"{config.ca.origin}: no certificate in it: {reason(err)}") from err
    if credential.certificate:
        certificate, key = credential.certificate, credential.key
        _load_pair(context, certificate, key, origin=f"{config.origin}: exec")
    elif config.certificate is not None and config.key is not None:
        certificate, key = config.certificate.read(), config.key.read()
        _load_pair(context, certificate, key, origin=config.certificate.origin)
    return TlsMaterial(verify=config.verify, authority=authority, certificate=certificate, key=key)


def reason(err: ssl.SSLError) -> str:
    """Return OpenSSL's message, without the position in its source."""
    return (getattr(err, "reason", "") or str(err)).replace("_", " ").lower()


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes, *, origin: str) -> None:
    def passphrase() -> str:  # otherwise OpenSSL prompts on the terminal
        raise ConfigError(f"{origin}: its key is encrypted, which is not supported")

    with _file_of(certificate.rstrip() + b"\n" + key) as path:
        try:
            context.load_cert_chain(path, password=passphrase)
        except ssl.SSLError as err:
            raise ConfigError(f"{origin}: not a certificate with its key: {reason(err)}") from err


@contextmanager
def _file_of(pem: bytes) -> Iterator[str]:
    """Yield the path of a temporary file that only this user can read: OpenSSL loads key pairs from files only."""
    try:
        with _open_temporary() as (file, path):
            file.write(pem)
            file.flush()
            yield path
    except OSError as err:
        if isinstance(err, ssl.SSLError):
            raise
        raise ConfigError(f"cannot write a temporary file for the client key: {err.strerror}") from err


@contextmanager
def _open_temporary() -> Iterator[tuple[IO[bytes], str]]:
    """Yield a temporary file and its path. On Linux it is in memory, so the key is not written to a disk."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate and key"), "wb") as file:
            yield file, f"/proc/self/fd/{file.fileno()}"
        return
    import tempfile  # heavy: shutil, libraries of archives

    with tempfile.NamedTemporaryFile() as named:
        yield named, named.name


def _stamp(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _differs(credential: Credential, other: Credential | None) -> bool:
    """Report whether the client certificates differ."""
    return other is None or (credential.certificate, credential.key) != (other.certificate, other.key)
