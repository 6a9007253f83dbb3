"""Process of the embedded API server: `python -m kcm.runtime.apiserver.process --dir .kcm --port 0`.

The process prints one line of JSON to standard output: {"url": …, "kubeconfig": …} when it serves, or {"error": …}
before it exits with a status other than 0. Logs are written to standard error. SIGTERM and SIGINT shut it down
gracefully, and with --until-stdin-closes also the end of standard input, so that it ends with its parent process.

Its directory contains the database (without --in-memory), certificates and keys, the administrator's token, and
kubeconfigs. If the database is deleted while the server runs, all later requests fail with 503, and the server is not
ready.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

from kcm.protocols.addresses import host_port
from kcm.runtime.apiserver.access.account_tokens import ISSUER, AccountTokens
from kcm.runtime.apiserver.access.authentication import Authenticator
from kcm.runtime.apiserver.access.legacy_tokens import LegacyTokens
from kcm.runtime.apiserver.access.token_authenticator import AcceptedTokens
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.http.audit import AuditLog
from kcm.runtime.apiserver.http.handler import ApiHttp, TakeSnapshot
from kcm.runtime.apiserver.process.api_settings import api_settings
from kcm.runtime.apiserver.process.audit_sink import audit_log
from kcm.runtime.apiserver.process.certificates import (
    ADMIN,
    ADMIN_GROUP,
    Certificates,
    KeyPair,
    ensure_account_key,
    ensure_certificates,
)
from kcm.runtime.apiserver.process.disk_store import FullDiskHandler, end, open_store, set_lost, snapshot
from kcm.runtime.apiserver.process.failures import CannotServeError, StoreFailedError
from kcm.runtime.apiserver.process.kubeconfig import (
    KubeconfigUnreadableError,
    ensure_token,
    last_port,
    update_kubeconfig,
)
from kcm.runtime.apiserver.process.listener import LOOPBACK, connection_limits, listen, renew, tls_context
from kcm.runtime.apiserver.process.settings import ServerSettings, parse_settings
from kcm.runtime.apiserver.process.system_users import node_key, static_users, system_users, write_system_kubeconfigs
from kcm.runtime.apiserver.registry.users import User
from kcm.runtime.apiserver.server.api_server import ApiServer
from kcm.runtime.apiserver.storage.sqlite_store import SqliteStore
from kcm.runtime.apiserver.storage.store import MemoryStore, Store, StoreLostError, StoreUnusableError
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.http.server.bounded_connections import BoundedConnections
from kcm.runtime.http.server.connection import HttpConnection
from kcm.runtime.logs.configuration import configure_logging, logger_for
from kcm.runtime.logs.settings import LogSettings
from kcm.runtime.process.descriptors import raise_limit
from kcm.runtime.process.event_loop import new_event_loop
from kcm.runtime.process.files import DirectoryInUseError, UnsafeDirectoryError, refuse_foreign, sole_use
from kcm.runtime.process.memory import collect_rarely, give_back_freed, keep_large_blocks_outside_the_heap
from kcm.runtime.process.version import this_version
from kcm.runtime.scheduling.clock import SystemClock
from kcm.runtime.signing.tokens import KeyUnusableError, VerifyingKey, read_signing_key, read_verifying_keys

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

CERTIFICATES = "certificates"  # subdirectory of the server's directory
STDIN = 0  # file descriptor
TICK = 1.0  # seconds between calls of ApiServer.tick
GIVE_BACK_EVERY = 60.0  # seconds between calls of give_back_freed, which takes a few milliseconds
DRAIN = 5.0  # seconds for open connections to finish
# Files in the directory that no other user may own or write: they contain credentials, or determine what is served.
TRUSTED = (
    "token",
    "tokens",
    "tokens/*",
    "certificates",
    "certificates/*",
    "cluster.db*",
    "kubeconfig",
    "kubeconfigs",
    "kubeconfigs/*",
    "managers",
)


Announce = Callable[[str, Path], None]  # called with the URL and the path of the kubeconfig when the server serves


def main(argv: Sequence[str] | None = None) -> int:
    try:
        settings = parse_settings(sys.argv[1:] if argv is None else argv)
    except FlagError as err:
        print_line({"error": str(err)})
        return 2
    clock = SystemClock()
    configure_logging(LogSettings(format=settings.log_format, quiet=settings.quiet), now=clock.now)
    try:
        return run(settings, clock=clock, announce=print_serving)
    except CannotServeError as err:
        print_line({"error": str(err)})
        return 1


def run(settings: ServerSettings, *, clock: SystemClock, announce: Announce) -> int:
    """Serve until a signal arrives, and return the exit code. Logging must be configured.

    announce: called when the server serves

    Raises CannotServeError if the server cannot start.
    """
    log = logger_for("embedded-apiserver")
    try:
        with sole_use(settings.directory, patience=settings.patience):
            refuse_foreign(settings.directory, *TRUSTED)
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                return runner.run(serve(settings, clock=clock, log=log, announce=announce))
    except (DirectoryInUseError, UnsafeDirectoryError, StoreUnusableError) as err:
        raise CannotServeError(str(err)) from err
    except OSError as err:
        raise CannotServeError(f"cannot use {settings.directory}: {err.strerror or err}") from err


def print_line(fields: dict[str, str]) -> None:
    """Print a line of JSON to standard output, which the parent process waits for."""
    sys.stdout.write(orjson.dumps(fields).decode() + "\n")
    sys.stdout.flush()


def print_serving(url: str, kubeconfig: Path) -> None:
    print_line({"url": url, "kubeconfig": str(kubeconfig)})


async def serve(settings: ServerSettings, *, clock: SystemClock, log: FilteringBoundLogger, announce: Announce) -> int:
    """Serve until a signal arrives, and return the exit code; see run.

    Raises CannotServeError, StoreUnusableError and OSError if the server cannot start.
    """
    asyncio.get_running_loop().set_exception_handler(partial(_log_failure, log))
    directory = settings.directory
    settings_of_api = api_settings(settings)
    certificates_in = directory / CERTIFICATES
    certificates_in.mkdir(mode=0o700, exist_ok=True)
    current = partial(_certificates, settings, clock)
    certificates = current()
    token = ensure_token(directory / "token")
    ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    _end_on_signals(ending, until_stdin_closes=settings.until_stdin_closes)
    lost: asyncio.Future[StoreLostError] = asyncio.get_running_loop().create_future()
    for leftover in directory.glob("snapshot-*"):
        leftover.unlink()
    full_disk = FullDiskHandler(ending, clock=clock, log=log)
    store = MemoryStore() if settings.in_memory else open_store(settings, full_disk, ending, lost)
    try:
        users = {token: User(ADMIN, groups=(ADMIN_GROUP,)), **system_users(directory)}
        users |= static_users(settings.token_auth_file)
        api = _new_api_server(settings, settings_of_api, store, users, clock=clock, log=log)
        take_snapshot = partial(snapshot, store, directory) if isinstance(store, SqliteStore) else None
        audit = audit_log(settings, clock=clock, log=log)
        http = _http_handler(
            api,
            clock=clock,
            log=log,
            snapshot=take_snapshot,
            audit=audit,
            anonymous=settings.allows_anonymous,
            emulated=settings.emulated_version,
        )
        keep_large_blocks_outside_the_heap()
        connections = BoundedConnections(connection_limits(raise_limit()), log=log)
        server, tls = http.server(connections), tls_context(certificates, settings.client_ca_file)
        renewing = asyncio.create_task(renew(tls, current, certificates_in, log))
        try:
            kubeconfig = directory / "kubeconfig"
            listening = listen(settings.port, preferred=last_port(kubeconfig), host=settings.bind_address)
            port = int(listening.getsockname()[1])
            connections.accept(listening, partial(HttpConnection, server), tls=tls)
            url = f"https://{host_port(settings.host, port)}"
            api.publish_address(LOOPBACK, port)
            api.ensure_roles()
            trusted = certificates.serving if settings.serving_certificate else certificates.authority
            authority = trusted.certificate.read_bytes()
            write_system_kubeconfigs(directory, url=url, authority=authority)
            _update_kubeconfig(kubeconfig, url=url, authority=authority, token=token, log=log)
            collect_rarely()
            await _wait_until_durable(api, ending, lost)
            if ending.done() and ending.exception() is not None:
                raise CannotServeError(str(ending.exception()))
            full_disk.http = http
            announce(url, kubeconfig.resolve())
            log.info("serving", url=url, directory=str(directory), revision=api.revision)
            await _tick_until(ending, lost, api, store, clock.now, log)
            if lost.done():
                log.error("refusing all requests, the store is lost", error=str(lost.result()))
                http.fail(status_errors.unavailable(f"the store is lost: {lost.result()}"))
                await ending
        except StoreFailedError as err:
            log.error("stopping, the store cannot be written", error=str(err))
            http.fail(status_errors.internal(f"the store cannot be written: {err}"))
            return 1
        finally:
            renewing.cancel()
            http.end_watches()
            await connections.stop_accepting()
            await server.end(DRAIN)
            await http.close()
    finally:
        store.close()
    log.info("stopped")
    return 0


def _new_api_server(
    settings: ServerSettings,
    api_settings: ApiSettings,
    store: Store,
    users: Mapping[str, User],
    *,
    clock: SystemClock,
    log: FilteringBoundLogger,
) -> ApiServer:
    """Create the ApiServer with the keys in its directory. users: administrator and control plane, by token."""
    directory = settings.directory
    try:
        verifying = [key for path in settings.account_verifying_key_files for key in read_verifying_keys(path)]
        accounts = AccountTokens(
            read_signing_key(settings.account_signing_key_file)
            if settings.account_signing_key_file
            else ensure_account_key(directory / CERTIFICATES / "service-accounts.key"),
            issuers=settings.account_issuers or (ISSUER,),
            audiences=settings.api_audiences,
            others=verifying,
        )
    except KeyUnusableError as err:
        raise CannotServeError(f"cannot use a key of service accounts: {err}") from err
    tokens = AcceptedTokens(
        accounts=accounts,
        # after ensure_account_key, which may create this file
        legacy=_legacy_tokens(settings.account_key_file, verifying, log),
        users=users,
        node_key=node_key(directory),
    )
    return ApiServer(store=store, clock=clock, settings=api_settings, tokens=tokens)


def _certificates(settings: ServerSettings, clock: SystemClock) -> Certificates:
    """Return the current certificates; the serving certificate may be one of the user's. Raises OSError."""
    own = ensure_certificates(settings.directory / CERTIFICATES, now=clock.now())
    if not settings.serving_certificate:
        return own
    return replace(own, serving=KeyPair(Path(settings.serving_certificate), Path(settings.serving_key)))


def _legacy_tokens(key_file: str, others: Sequence[VerifyingKey], log: FilteringBoundLogger) -> LegacyTokens | None:
    """Return the verifier of tokens in service account Secrets; None without a usable key.

    Without it, these tokens are rejected.

    key_file: file of the key that signs them; "" for none
    others: further keys that verify them
    """
    keys = list(others)
    try:
        keys += [read_signing_key(key_file)] if key_file else []
    except KeyUnusableError as err:
        log.warning("key is unreadable, rejecting tokens of service account Secrets", error=str(err))
    return LegacyTokens(keys) if keys else None


async def _wait_until_durable(api: ApiServer, *or_else: asyncio.Future[Any]) -> None:
    """Wait until the initial objects are durable, or until one of the futures is done."""
    durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    api.when_durable(partial(durable.set_result, None))
    await asyncio.wait((durable, *or_else), return_when=asyncio.FIRST_COMPLETED)


def _log_failure(log: FilteringBoundLogger, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error(context["message"], exc_info=context.get("exception"))


def _http_handler(
    api: ApiServer,
    *,
    clock: SystemClock,
    log: FilteringBoundLogger,
    snapshot: TakeSnapshot | None,
    audit: AuditLog | None,
    anonymous: bool,
    emulated: str,
) -> ApiHttp:
    return ApiHttp(
        api,
        authenticator=Authenticator(api.user_of),
        version=this_version()._replace(emulated=emulated),
        clock=clock,
        log=log,
        snapshot=snapshot,
        audit=audit,
        anonymous=anonymous,
    )


def _update_kubeconfig(path: Path, *, url: str, authority: bytes, token: str, log: FilteringBoundLogger) -> None:
    """Write the administrator's kubeconfig. An invalid file is renamed to *.unreadable. Raises OSError."""
    try:
        update_kubeconfig(path, url=url, authority=authority, token=token)
    except KubeconfigUnreadableError as err:
        kept = path.with_name(f"{path.name}.unreadable")
        log.warning("kubeconfig is invalid, writing a new one", kept_as=str(kept), error=str(err))
        path.replace(kept)
        update_kubeconfig(path, url=url, authority=authority, token=token)


def _end_on_signals(ending: asyncio.Future[None], *, until_stdin_closes: bool) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, ending, None)
    if until_stdin_closes:

        def on_input() -> None:
            if not os.read(STDIN, 4096):
                loop.remove_reader(STDIN)
                end(ending, None)

        loop.add_reader(STDIN, on_input)


async def _tick_until(
    ending: asyncio.Future[None],
    lost: asyncio.Future[StoreLostError],
    api: ApiServer,
    store: Store,
    now: Callable[[], float],
    log: FilteringBoundLogger,
) -> None:
    """Call ApiServer.tick every TICK seconds until a future is done. Raises the exception of `ending`, if it has one.

    Failed jobs are logged, and run again when they are due again. Every GIVE_BACK_EVERY seconds, freed memory, such as
    that of old changes, is returned to the system.

    lost: set here as well, if the database file was deleted or replaced
    """
    loop = asyncio.get_running_loop()
    give_back_at = loop.time() + GIVE_BACK_EVERY
    while not ending.done():
        either: tuple[asyncio.Future[Any], ...] = (ending, lost)
        await asyncio.wait(either, timeout=TICK, return_when=asyncio.FIRST_COMPLETED)
        error = store.lost() if isinstance(store, SqliteStore) else None  # without writes, no commit would detect it
        if error is not None:
            set_lost(lost, error)
        if lost.done():
            return
        try:
            api.tick(now())
        except ExceptionGroup:
            log.exception("periodic jobs failed")
        if loop.time() >= give_back_at:
            give_back_at = loop.time() + GIVE_BACK_EVERY
            give_back_freed()
    ending.result()
