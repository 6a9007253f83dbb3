"""Listening socket of the server, its TLS context, and the limits of its connections."""

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
RENEW_EVERY = 3600.0  # seconds between two checks of the certificates
# Bounds of the number of open connections, which depends on the limit of file descriptors. Each watch has its own.
MOST_CONNECTIONS, FEWEST_CONNECTIONS = 2048, 16
RESERVED_DESCRIPTORS = 128  # file descriptors for the store, logs and other files


def tls_context(certificates: Certificates, client_ca_file: str = "") -> ssl.SSLContext:
    """Return the TLS context of the server, which accepts client certificates of its own CA.

    Client certificates are optional: a client without one authenticates with a token.

    client_ca_file: PEM file with additional CAs of client certificates; "" for none

    Raises CannotServeError if the file contains no certificates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    load_serving_certificate(context, certificates)
    context.load_verify_locations(certificates.authority.certificate)
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ssl.SSLError) as err:
            raise CannotServeError(f"--client-ca-file: cannot load {client_ca_file}: {err.strerror or err}") from err
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def load_serving_certificate(context: ssl.SSLContext, certificates: Certificates) -> None:
    context.load_cert_chain(certificates.serving.certificate, certificates.serving.key)


async def renew(tls: ssl.SSLContext, directory: Path, now: Callable[[], float], log: FilteringBoundLogger) -> None:
    """Renew the certificates before they expire, and use them for new connections. Runs until it is cancelled.

    tls: the TLS context to update
    directory: directory of the certificates
    now: returns the current time in Unix seconds
    """
    while True:
        await asyncio.sleep(RENEW_EVERY)
        try:
            load_serving_certificate(tls, ensure_certificates(directory, now=now()))
        except OSError as err:
            log.warning("certificate renewal failed", directory=str(directory), error=str(err))


def connection_limits(descriptors: int) -> ConnectionLimits:
    """Return the limits of open connections.

    descriptors: maximum number of open files of the process, some of which are reserved
    """
    most = max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, descriptors - RESERVED_DESCRIPTORS))
    return ConnectionLimits(most=most, idle_known=KEEP_ALIVE)


def listen(port: int, *, preferred: int) -> socket.socket:
    """Return a socket that listens on loopback. Raises CannotServeError.

    port: port to listen on; 0 for any free port
    preferred: port to prefer if `port` is 0; 0 for none
    """
    if preferred and not port:
        with contextlib.suppress(OSError):
            return socket.create_server((LOOPBACK, preferred), backlog=BACKLOG)
    try:
        return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    except OSError as err:
        reason = os.strerror(err.errno) if err.errno else err
        raise CannotServeError(
            f"cannot listen on {LOOPBACK}:{port}: {reason} (--embedded-port=0 takes a free one)"
        ) from err
