"""The program `etcd` of envtest: it responds to health checks, and keeps the directory of the stored objects.

It does not store anything itself and has no API of etcd: `kube-apiserver` beside it keeps a database in --data-dir.
Exit codes: 0 after SIGTERM or Ctrl-C, 1 if it cannot serve.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.runtime.envtest.etcd_directory import PATH, http_address
from kcm.runtime.flags.declaration import Flag, FlagError, FlagStruct, fill, flag, flags_in, parse, usage
from kcm.runtime.flags.values import BOOL, STRING

if TYPE_CHECKING:
    from kcm.runtime.serving.application import PageRequest, PageResponse

PROGRAM = "etcd"
SUMMARY = "Keeps the directory of the objects of the kube-apiserver of `run-kcm envtest`. It is not an etcd."
VERSION = "3.6.0"  # of the etcd whose flags and paths these are


class EtcdFlags(FlagStruct, frozen=True, kw_only=True):
    """Flags with an effect."""

    data_dir: str = flag("default.etcd", "Directory of the stored objects.")
    listen_client_urls: tuple[str, ...] = flag(
        ("http://localhost:2379",), "URLs to respond on, for health checks and for the kube-apiserver."
    )
    unsafe_no_fsync: bool = flag(
        False, "Acknowledge writes when the operating system has them. Without it, they are on disk."
    )
    help: bool = flag(False, "Show the flags.", short="h")
    version: bool = flag(False, "Show the version.")


# Flags of etcd 3.6 without effect.
BOOLEANS = """
    auto-tls client-cert-auth compact-hash-check-enabled enable-grpc-gateway enable-log-rotation enable-pprof
    force-new-cluster initial-election-tick-advance peer-auto-tls peer-client-cert-auth
    peer-skip-client-san-verification pre-vote socket-reuse-address socket-reuse-port strict-reconfig-check
    watch-progress-notify
"""
OTHERS = """
    advertise-client-urls auth-token auth-token-ttl auto-compaction-mode auto-compaction-retention
    backend-batch-interval backend-batch-limit backend-bbolt-freelist-type bcrypt-cost cert-file cipher-suites
    client-cert-allowed-hostname client-crl-file compaction-batch-limit compaction-sleep-interval config-file
    corrupt-check-time cors discovery-endpoints discovery-token election-timeout experimental-initial-corrupt-check
    experimental-watch-progress-notify-interval feature-gates grpc-keepalive-interval grpc-keepalive-min-time
    grpc-keepalive-timeout heartbeat-interval host-whitelist initial-advertise-peer-urls initial-cluster
    initial-cluster-state initial-cluster-token key-file listen-client-http-urls listen-metrics-urls
    listen-peer-urls log-format log-level log-outputs log-rotation-config-json logger max-concurrent-streams
    max-request-bytes max-snapshots max-txn-ops max-wals memory-mlock metrics name peer-cert-allowed-cn
    peer-cert-allowed-hostname peer-cert-file peer-crl-file peer-key-file peer-trusted-ca-file quota-backend-bytes
    raft-read-timeout raft-write-timeout self-signed-cert-validity snapshot-catchup-entries snapshot-count
    tls-max-version tls-min-version trusted-ca-file v2-deprecation wal-dir warning-apply-duration
    warning-unary-request-duration
"""


def _without_effect() -> Iterator[Flag]:
    for kind, names in ((BOOL, BOOLEANS), (STRING, OTHERS)):
        for name in names.split():
            yield Flag(
                name=name,
                path=(EtcdFlags, name),
                section="",
                kind=kind,
                default="",
                help="Accepted.",
                retired="there is no etcd",
            )


OWN: tuple[Flag, ...] = flags_in(EtcdFlags, section="etcd")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program, and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        flags = read_flags(arguments)
        if flags.help:
            flags_shown = (*OWN, *_without_effect())
            print(usage(PROGRAM, SUMMARY, flags_shown, columns=shutil.get_terminal_size().columns))
            return 0
        if flags.version:
            print(f"etcd Version: {VERSION}\nof run-kcm envtest")
            return 0
        addresses = [_address(url) for url in flags.listen_client_urls]
    except FlagError as err:
        print(f"error verifying flags, {err}. See 'etcd --help'.", file=sys.stderr)
        return 1
    return _serve(flags, addresses)


def read_flags(argv: Sequence[str]) -> EtcdFlags:
    """Parse a command line. As of etcd's flags, names may begin with a single dash. Raises FlagError."""
    words = [f"-{word}" if _is_long_with_one_dash(word) else word for word in argv]
    parsed = parse((*OWN, *_without_effect()), words)
    if parsed.positional:
        raise FlagError(f"'{parsed.positional[0]}' is not a valid flag")
    flags: EtcdFlags = fill(OWN, parsed.values)[EtcdFlags]
    return flags


def _is_long_with_one_dash(word: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and len(word.partition("=")[0]) > 2


def _address(url: str) -> tuple[str, int]:
    """Return host and port of a URL to listen on. Raises FlagError."""
    try:
        return http_address(url)
    except ValueError as err:
        raise FlagError(f"--listen-client-urls: {err}") from err


class EtcdPages:
    """Pages of the program: health, version, and where the API server stores its objects."""

    def __init__(self, directory: Path, *, durable: bool) -> None:
        healthy = {"health": "true", "reason": ""}
        self._documents = {
            "/health": healthy,
            "/version": {"etcdserver": VERSION, "etcdcluster": VERSION, "storage": VERSION},
            PATH: {"directory": str(directory), "durable": durable},
        }

    async def page(self, request: PageRequest) -> PageResponse:
        from kcm.runtime.http.server.request import JSON
        from kcm.runtime.serving.application import PageResponse, text_page

        if request.path in ("/livez", "/readyz"):
            return text_page("ok\n")
        document = self._documents.get(request.path)
        if document is None:
            return text_page("404 page not found\n", status=404)
        return PageResponse(body=json.dumps(document).encode(), content_type=JSON)


def _serve(flags: EtcdFlags, addresses: Sequence[tuple[str, int]]) -> int:
    # Slow to import, and not needed for --help and errors in flags.
    from kcm.runtime.logs.configuration import configure_logging, logger_for
    from kcm.runtime.logs.settings import LogSettings
    from kcm.runtime.process.termination import on_signals
    from kcm.runtime.scheduling.clock import SystemClock
    from kcm.runtime.serving.application import Application
    from kcm.runtime.serving.server import PageListener, ServerThread, ServingError

    ending = on_signals()
    clock = SystemClock()
    configure_logging(LogSettings(), now=clock.now)
    log = logger_for("etcd")
    directory = Path(flags.data_dir).resolve()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as err:
        print(f"etcd: cannot create --data-dir {directory}: {err.strerror}", file=sys.stderr)
        return 1
    pages = EtcdPages(directory, durable=not flags.unsafe_no_fsync)
    application = Application(pages.page, now=clock.now, log=log)
    server = ServerThread(
        [PageListener(application=application, host=host, port=port) for host, port in addresses], log=log
    )
    with closing(clock):
        try:
            server.start()
        except ServingError as err:
            print(f"etcd: {err}", file=sys.stderr)
            return 1
        log.info("keeping the directory of the stored objects", directory=str(directory))
        ending.wait()
        server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
