"""TLS towards the API server: contexts from PEM in files or in place, made anew when a file changes."""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from runtime.client.config import ClientConfig, ConfigError, Credential
from runtime.scheduling.clock import Clock

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LOOK_EVERY = 10.0  # seconds between two looks at the files

_Stamp = tuple[int, int, int]


class TlsContexts:
    """The context for new connections. One thread's.

    An open connection keeps the context it was made with. A change of files that makes no good context (the new
    certificate is there, its key not yet) leaves the old one in use, is logged, and looked at again.
    """

    def __init__(self, config: ClientConfig, *, clock: Clock, log: FilteringBoundLogger) -> None:
        self._config, self._clock, self._log = config, clock, log
        materials = (config.ca, config.certificate, config.key)
        self._paths = [pem.path for pem in materials if pem is not None and pem.path]
        self._stamps: list[_Stamp | None] = []
        self._look_at = 0.0
        self._context: ssl.SSLContext | None = None
        self._credential: Credential | None = None

    def context(self, credential: Credential) -> ssl.SSLContext:
        """credential: may hold a client certificate, which goes before the configured one.

        Raises ConfigError when not even the first context can be made.
        """
        now = self._clock.monotonic()
        if self._context is not None and credential is self._credential and now < self._look_at:
            return self._context
        self._look_at = now + LOOK_EVERY
        stamps = [_stamp(path) for path in self._paths]
        if self._context is None or stamps != self._stamps or _differs(credential, self._credential):
            try:
                self._context = tls_context(self._config, credential)
            except ConfigError as err:
                if self._context is None:
                    raise
                self._log.warning("TLS files not reloaded", error=str(err))
                return self._context
            self._stamps = stamps
        self._credential = credential
        return self._context


def tls_context(config: ClientConfig, credential: Credential) -> ssl.SSLContext:
    """Raises ConfigError, naming the field whose PEM is no good."""
    # Not ssl.create_default_context: from Python 3.13 on it refuses CAs without extensions that many clusters' lack.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not config.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif config.ca is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=config.ca.read().decode("ascii", "replace"))
        except ssl.SSLError as err:
            raise ConfigError(f"{config.ca.origin}: no certificate in it: {reason(err)}") from err
    if credential.certificate:
        _load_pair(context, credential.certificate, credential.key, origin=f"{config.origin}: exec")
    elif config.certificate is not None and config.key is not None:
        _load_pair(context, config.certificate.read(), config.key.read(), origin=config.certificate.origin)
    return context


def reason(err: ssl.SSLError) -> str:
    """OpenSSL's message, without the position in its source."""
    # An error that Python's own code raises has none of these attributes.
    if message := getattr(err, "verify_message", ""):
        return f"certificate verify failed: {message}"
    return (getattr(err, "reason", "") or str(err)).replace("_", " ").lower()


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes, *, origin: str) -> None:
    def passphrase() -> str:  # without it OpenSSL would ask on the terminal
        raise ConfigError(f"{origin}: its key is encrypted, which is not supported")

    with _file_of(certificate.rstrip() + b"\n" + key) as path:
        try:
            context.load_cert_chain(path, password=passphrase)
        except ssl.SSLError as err:
            raise ConfigError(f"{origin}: not a certificate with its key: {reason(err)}") from err


@contextmanager
def _file_of(pem: bytes) -> Iterator[str]:
    """A file only we can read, for as long as the block runs: OpenSSL takes key pairs from files alone."""
    try:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem)
            file.flush()
            yield file.name
    except OSError as err:
        if isinstance(err, ssl.SSLError):
            raise
        raise ConfigError(f"cannot write a temporary file for the client key: {err.strerror}") from err


def _stamp(path: str) -> _Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _differs(credential: Credential, other: Credential | None) -> bool:
    """Whether the two stand for different client certificates."""
    return other is None or (credential.certificate, credential.key) != (other.certificate, other.key)
