"""The socket that the server listens on, how many connections it takes, and its TLS."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.runtime.apiserver.http.handler import KEEP_ALIVE
from kcm.runtime.apiserver.process.certificates import Certificates, ensure_certificates
from kcm.runtime.apiserver.process.failures import CannotServeError
from kcm.runtime.http.server.bounded_connections import BACKLOG, ConnectionLimits

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LOOPBACK = "127.0.0.1"
RENEW_EVERY = 3600.0  # seconds between two looks at the certificates
# Connections at once, as many as descriptors allow. Each informer of each client has one.
MOST_CONNECTIONS, FEWEST_CONNECTIONS = 2048, 16
KEPT_BACK = 128  # descriptors


def tls_context(certificates: Certificates, client_ca_file: str = "") -> ssl.SSLContext:
    """A client certificate of our authority, or of those in the file, is accepted; a client without one needs a token.

    Raises CannotServeError if the file contains no certificates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    serve_with(context, certificates)
    context.load_verify_locations(certificates.authority.certificate)
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ssl.SSLError) as err:
            raise CannotServeError(f"--client-ca-file: cannot load {client_ca_file}: {err.strerror or err}") from err
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def serve_with(context: ssl.SSLContext, certificates: Certificates) -> None:
    context.load_cert_chain(certificates.serving.certificate, certificates.serving.key)


async def renew(tls: ssl.SSLContext, directory: Path, now: Callable[[], float], log: FilteringBoundLogger) -> None:
    """Serve with a new certificate before the present one ends, for those that connect from then on."""
    while True:
        await asyncio.sleep(RENEW_EVERY)
        try:
            serve_with(tls, ensure_certificates(directory, now=now()))
        except OSError as err:
            log.warning("certificates not looked at", directory=str(directory), error=str(err))


def bounds_of(descriptors: int) -> ConnectionLimits:
    """Return the bounds of connections for this number of descriptors; some are kept for the store, logs and files."""
    most = max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, descriptors - KEPT_BACK))
    return ConnectionLimits(most=most, idle_known=KEEP_ALIVE)


def listen(port: int, *, rather: int) -> socket.socket:
    """Open the socket. With port 0, `rather` is taken if it is free. Raises CannotServeError."""
    if rather and not port:
        with contextlib.suppress(OSError):
            return socket.create_server((LOOPBACK, rather), backlog=BACKLOG)
    try:
        return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    except OSError as err:
        reason = os.strerror(err.errno) if err.errno else err
        raise CannotServeError(
            f"cannot listen on {LOOPBACK}:{port}: {reason} (--embedded-port=0 takes a free one)"
        ) from err
