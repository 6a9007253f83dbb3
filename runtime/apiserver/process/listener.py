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

from kcm.protocols.addresses import host_port
from kcm.runtime.apiserver.http.handler import KEEP_ALIVE
from kcm.runtime.apiserver.process.certificates import Certificates
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

    Raises CannotServeError if a file contains no certificates, or no key that matches.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        load_serving_certificate(context, certificates)
    except (OSError, ssl.SSLError) as err:
        serving = certificates.serving
        raise CannotServeError(
            f"cannot load the serving certificate {serving.certificate} and its key {serving.key}: {reason_of(err)}"
        ) from err
    context.load_verify_locations(certificates.authority.certificate)
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except (OSError, ssl.SSLError) as err:
            raise CannotServeError(f"--client-ca-file: cannot load {client_ca_file}: {reason_of(err)}") from err
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def reason_of(err: OSError) -> str:
    """Return the reason of an error of the ssl module or of a file, without the path."""
    return getattr(err, "reason", "") or err.strerror or str(err)


def load_serving_certificate(context: ssl.SSLContext, certificates: Certificates) -> None:
    context.load_cert_chain(certificates.serving.certificate, certificates.serving.key)


async def renew(
    tls: ssl.SSLContext, current: Callable[[], Certificates], directory: Path, log: FilteringBoundLogger
) -> None:
    """Renew the certificates before they expire, and use them for new connections. Runs until it is cancelled.

    tls: the TLS context to update
    current: renews the certificates that are about to expire, and returns all
    directory: directory of the certificates
    """
    while True:
        await asyncio.sleep(RENEW_EVERY)
        try:
            load_serving_certificate(tls, current())
        except OSError as err:
            log.warning("certificate renewal failed", directory=str(directory), error=str(err))


def connection_limits(descriptors: int) -> ConnectionLimits:
    """Return the limits of open connections.

    descriptors: maximum number of open files of the process, some of which are reserved
    """
    most = max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, descriptors - RESERVED_DESCRIPTORS))
    return ConnectionLimits(most=most, idle_known=KEEP_ALIVE)


def listen(port: int, *, preferred: int, host: str = LOOPBACK) -> socket.socket:
    """Return a listening socket. Raises CannotServeError.

    port: port to listen on; 0 for any free port
    preferred: port to prefer if `port` is 0; 0 for none
    host: IP address to listen on
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if preferred and not port:
        with contextlib.suppress(OSError):
            return socket.create_server((host, preferred), family=family, backlog=BACKLOG)
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as err:
        reason = os.strerror(err.errno) if err.errno else err
        hint = " (--embedded-port=0 takes a free one)" if host == LOOPBACK else ""
        raise CannotServeError(f"cannot listen on {host_port(host, port)}: {reason}{hint}") from err
