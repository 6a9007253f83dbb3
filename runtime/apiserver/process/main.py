"""The embedded API server as a process of its own: `python -m runtime.apiserver.process --dir .kcm --port 0`.

It writes one line of JSON to standard output: {"url": …, "kubeconfig": …} once it serves, or {"error": …} before it
exits with 1. Logs go to standard error. SIGTERM and SIGINT shut it down gracefully; with --until-stdin-closes so does
the end of standard input, which comes with the end of the parent process.

Its directory holds the store, certificates and keys, the admin's token, and the kubeconfig. When the store is deleted
under a running server, this answers every request with 503 from then on, and is not ready.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from protocols.late_methods import dataclass
from runtime.apiserver.core.account_tokens import AccountTokens
from runtime.apiserver.core.cluster import SERVICE_RANGES
from runtime.apiserver.core.legacy_tokens import LegacyTokens
from runtime.apiserver.errors import status_errors
from runtime.apiserver.http.authentication import Authenticator
from runtime.apiserver.http.handler import KEEP_ALIVE, ApiHttp
from runtime.apiserver.kinds.shared.service_allocation import read_service_ranges
from runtime.apiserver.process.certificates import (
    ADMIN,
    ADMIN_GROUP,
    Certificates,
    ensure_account_key,
    ensure_certificates,
)
from runtime.apiserver.process.kubeconfig import KubeconfigUnreadableError, admin_token, last_port, update_kubeconfig
from runtime.apiserver.process.launch import STORE
from runtime.apiserver.registry.users import User
from runtime.apiserver.server import ApiServer
from runtime.apiserver.storage.sqlite_store import SqliteStore
from runtime.apiserver.storage.store import StoreLostError, StoreUnusableError
from runtime.logs.configuration import configure_logging, logger_for
from runtime.logs.settings import LogSettings
from runtime.process.bounded_connections import BACKLOG, BoundedConnections, Bounds
from runtime.process.descriptors import raise_limit
from runtime.process.event_loop import new_event_loop
from runtime.process.files import DirectoryInUse, DirectoryNotOurs, refuse_foreign, sole_use
from runtime.process.memory import collect_rarely
from runtime.process.version import this_version
from runtime.scheduling.clock import SystemClock
from runtime.signing.tokens import KeyUnusableError, read_signing_key

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LOOPBACK = "127.0.0.1"
STDIN = 0  # file descriptor
TICK = 1.0  # seconds between calls of ApiServer.tick
DRAIN = 5.0  # seconds for open connections to finish
RENEW_EVERY = 3600.0  # seconds between two looks at the certificates
# Connections at once, as many as descriptors allow. Each informer of each client has one.
MOST_CONNECTIONS, FEWEST_CONNECTIONS = 2048, 16
KEPT_BACK = 128  # descriptors
# In the directory: who writes them is let in, leads us elsewhere, or has us take a live manager for dead.
TRUSTED = ("token", "certificates", "certificates/*", "cluster.db*", "kubeconfig", "managers")


class CannotServeError(Exception):
    """The server cannot start; the text is one line for people."""


class CannotGoOnError(Exception):
    """Writes can no longer be made durable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    directory: Path
    port: int
    log_format: str
    until_stdin_closes: bool
    quiet: bool
    patience: float
    collect_garbage: bool
    empty_namespaces: bool
    service_ranges: tuple[str, ...]
    account_key_file: str


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(argv)
    clock = SystemClock()
    configure_logging(LogSettings(format=arguments.log_format, quiet=arguments.quiet), now=clock.now)
    log = logger_for("embedded-apiserver")
    try:
        with sole_use(arguments.directory, patience=arguments.patience):
            refuse_foreign(arguments.directory, *TRUSTED)
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(serve(arguments, clock=clock, log=log))
    except (CannotServeError, DirectoryInUse, DirectoryNotOurs, StoreUnusableError) as err:
        print_line({"error": str(err)})
        return 1
    except OSError as err:
        print_line({"error": f"cannot use {arguments.directory}: {err.strerror or err}"})
        return 1


def parse_arguments(argv: Sequence[str] | None) -> Arguments:
    parser = argparse.ArgumentParser(prog="python -m runtime.apiserver.process", description="An embedded API server.")
    parser.add_argument("--dir", type=Path, default=Path(".kcm"), help="where all of its files are kept")
    parser.add_argument("--port", type=int, default=0, help="port on loopback; 0 for a free one")
    parser.add_argument("--logging-format", choices=("text", "json"), default="text", help="of log lines")
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input does")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds for another to leave the directory")
    parser.add_argument("--leave-garbage", action="store_true", help="to a garbage collector that runs as a controller")
    parser.add_argument("--leave-namespaces", action="store_true", help="to a namespace controller, likewise")
    parser.add_argument("--service-cluster-ip-range", default=",".join(SERVICE_RANGES), help="one, or one each family")
    parser.add_argument("--service-account-key-file", default="", help="of who signs the tokens of Secrets; private")
    parsed = parser.parse_args(argv)
    return Arguments(
        directory=parsed.dir,
        port=parsed.port,
        log_format=parsed.logging_format,
        until_stdin_closes=parsed.until_stdin_closes,
        quiet=parsed.quiet,
        patience=parsed.patience,
        collect_garbage=not parsed.leave_garbage,
        empty_namespaces=not parsed.leave_namespaces,
        service_ranges=tuple(one.strip() for one in parsed.service_cluster_ip_range.split(",") if one.strip()),
        account_key_file=parsed.service_account_key_file,
    )


def print_line(fields: dict[str, str]) -> None:
    """The one line that the parent process waits for."""
    sys.stdout.write(orjson.dumps(fields).decode() + "\n")
    sys.stdout.flush()


async def serve(arguments: Arguments, *, clock: SystemClock, log: FilteringBoundLogger) -> int:
    """Serves until a signal; returns the exit code.

    Raises CannotServeError, StoreUnusableError and OSError if it cannot start.
    """
    asyncio.get_running_loop().set_exception_handler(partial(_log_failure, log))
    directory = arguments.directory
    try:
        read_service_ranges(arguments.service_ranges)
    except ValueError as err:
        raise CannotServeError(f"--service-cluster-ip-range: {err}") from err
    certificates_in = directory / "certificates"
    certificates_in.mkdir(mode=0o700, exist_ok=True)
    certificates = ensure_certificates(certificates_in, now=clock.now())
    token = admin_token(directory / "token")
    ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _end_on_signals(ending, until_stdin_closes=arguments.until_stdin_closes)
    lost: asyncio.Future[StoreLostError] = asyncio.get_running_loop().create_future()
    store = _open_store(directory / STORE, ending, lost)
    try:
        api = ApiServer(
            store=store,
            clock=clock,
            collect_garbage=arguments.collect_garbage,
            empty_namespaces=arguments.empty_namespaces,
            tokens=AccountTokens(ensure_account_key(certificates_in / "service-accounts.key")),
            legacy_tokens=_legacy_tokens(arguments.account_key_file, log),  # may be the key that was made just now
            users={token: User(ADMIN, groups=(ADMIN_GROUP,))},
            service_ranges=arguments.service_ranges,
        )
        front = _front(api, clock=clock, log=log)
        connections = BoundedConnections(_bounds(raise_limit()), log=log)
        server, tls = front.server(connections), _tls(certificates)
        renewing = asyncio.create_task(_renew(tls, certificates_in, clock.now, log))
        try:
            kubeconfig = directory / "kubeconfig"
            listening = _listening(arguments.port, rather=last_port(kubeconfig))
            port = int(listening.getsockname()[1])
            connections.accept(listening, server, tls=tls)
            url = f"https://{LOOPBACK}:{port}"
            api.reached_at(LOOPBACK, port)
            authority = certificates.authority.certificate.read_bytes()
            _update_kubeconfig(kubeconfig, url=url, authority=authority, token=token, log=log)
            collect_rarely()
            await _durable(api, ending, lost)
            print_line({"url": url, "kubeconfig": str(kubeconfig.resolve())})
            log.info("serving", url=url, directory=str(directory), revision=api.revision)
            await _tick_until(ending, lost, api, store, clock.now, log)
            if lost.done():
                log.error("refusing all requests, the store is gone", error=str(lost.result()))
                front.fail(status_errors.unavailable(f"nothing can be stored any more: {lost.result()}"))
                await ending
        except CannotGoOnError as err:
            log.error("stopping, the store cannot be written", error=str(err))
            front.fail(status_errors.internal(f"the store cannot be written: {err}"))
            return 1
        finally:
            renewing.cancel()
            front.end_watches()
            await connections.stop_accepting()
            await server.end(DRAIN)
    finally:
        store.close()
    log.info("stopped")
    return 0


def _legacy_tokens(key_file: str, log: FilteringBoundLogger) -> LegacyTokens | None:
    """Without a key none are taken. Who was to sign with that key says more of it, and ends."""
    try:
        return LegacyTokens([read_signing_key(key_file)]) if key_file else None
    except KeyUnusableError as err:
        log.warning("tokens of secrets are not taken", error=str(err))
        return None


async def _durable(api: ApiServer, *or_else: asyncio.Future[Any]) -> None:
    """Wait until what a server begins with is durable, or one of these is settled."""
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    api.when_durable(partial(durable.set_result, None))
    await asyncio.wait((durable, *or_else), return_when=asyncio.FIRST_COMPLETED)


def _log_failure(log: FilteringBoundLogger, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error(context["message"], exc_info=context.get("exception"))


def _open_store(path: Path, ending: asyncio.Future[None], lost: asyncio.Future[StoreLostError]) -> SqliteStore:
    """Raises StoreUnusableError. A failed commit ends the server: later commits would not be durable either."""
    loop = asyncio.get_running_loop()

    def post(callback: Callable[[], None]) -> None:
        loop.call_soon_threadsafe(callback)

    def soon(callback: Callable[[], None]) -> None:
        loop.call_soon(callback)

    def failed(err: Exception) -> None:
        if isinstance(err, StoreLostError):
            loop.call_soon_threadsafe(_settle, lost, err)
        else:
            loop.call_soon_threadsafe(_end, ending, CannotGoOnError(f"{path}: {err}"))

    return SqliteStore(path, post=post, soon=soon, failed=failed)


def _front(api: ApiServer, *, clock: SystemClock, log: FilteringBoundLogger) -> ApiHttp:
    return ApiHttp(
        api,
        authenticator=Authenticator(api.user_of),
        version=this_version(),
        clock=clock,
        log=log,
    )


def _tls(certificates: Certificates) -> ssl.SSLContext:
    """A client certificate of our authority is accepted; a client without one needs a token."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    serve_with(context, certificates)
    context.load_verify_locations(certificates.authority.certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def serve_with(context: ssl.SSLContext, certificates: Certificates) -> None:
    context.load_cert_chain(certificates.serving.certificate, certificates.serving.key)


async def _renew(tls: ssl.SSLContext, directory: Path, now: Callable[[], float], log: FilteringBoundLogger) -> None:
    """Serve with a new certificate before the present one ends, for those that connect from then on."""
    while True:
        await asyncio.sleep(RENEW_EVERY)
        try:
            serve_with(tls, ensure_certificates(directory, now=now()))
        except OSError as err:
            log.warning("certificates not looked at", directory=str(directory), error=str(err))


def _bounds(descriptors: int) -> Bounds:
    """Of so many descriptors some are for the store, logs and files."""
    most = max(FEWEST_CONNECTIONS, min(MOST_CONNECTIONS, descriptors - KEPT_BACK))
    return Bounds(most=most, idle_known=KEEP_ALIVE)


def _listening(port: int, *, rather: int) -> socket.socket:
    """rather: the one to take, if it is free, where any will do. Raises CannotServeError."""
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


def _update_kubeconfig(path: Path, *, url: str, authority: bytes, token: str, log: FilteringBoundLogger) -> None:
    """One that cannot be read is kept beside. Raises OSError."""
    try:
        update_kubeconfig(path, url=url, authority=authority, token=token)
    except KubeconfigUnreadableError as err:
        kept = path.with_name(f"{path.name}.unreadable")
        log.warning("kubeconfig is written anew, as it could not be read", kept_as=str(kept), error=str(err))
        path.replace(kept)
        update_kubeconfig(path, url=url, authority=authority, token=token)


def _end_on_signals(ending: asyncio.Future[None], *, until_stdin_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, _end, ending, None)
    if until_stdin_closes:

        def on_input() -> None:
            if not os.read(STDIN, 4096):
                loop.remove_reader(STDIN)
                _end(ending, None)

        loop.add_reader(STDIN, on_input)


def _end(ending: asyncio.Future[None], error: Exception | None) -> None:
    if ending.done():
        return
    if error is None:
        ending.set_result(None)
    else:
        ending.set_exception(error)


def _settle(lost: asyncio.Future[StoreLostError], error: StoreLostError) -> None:
    if not lost.done():
        lost.set_result(error)


async def _tick_until(
    ending: asyncio.Future[None],
    lost: asyncio.Future[StoreLostError],
    api: ApiServer,
    store: SqliteStore,
    now: Callable[[], float],
    log: FilteringBoundLogger,
) -> None:
    """Until one of both is settled. Raises CannotGoOnError. A job that fails is logged, and tried again when it is due
    again.
    """
    while not ending.done():
        either: tuple[asyncio.Future[Any], ...] = (ending, lost)
        await asyncio.wait(either, timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
        error = store.lost()  # no commit may come for long
        if error is not None:
            _settle(lost, error)
        if lost.done():
            return
        try:
            api.tick(now())
        except ExceptionGroup:
            log.exception("jobs that were due have failed")
    ending.result()
