"""`run-kcm apiserver`: the embedded API server alone, without controllers and nodes.

The server's stand-ins (runtime/apiserver/stand_ins) collect garbage and empty namespaces.
Exit codes: 0 after SIGTERM or Ctrl-C, 1 if the server cannot start or can no longer store writes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.actors.options.general import Logging, ProcessOptions
from kcm.actors.options.validation import embedded_server_faults, logging_faults
from kcm.protocols.admission_plugins import without_controllers
from kcm.runtime.flags.declaration import Flag, FlagError, FlagStruct, fill, flag, flags_in, parse, usage
from kcm.runtime.flags.values import quote
from kcm.runtime.process.version import this_version

PROGRAM = "kcm apiserver"
SUMMARY = (
    "Serves the Kubernetes API on this machine, without controllers and nodes, for tests of clients. The server itself "
    "deletes objects without owners, and the objects of deleted namespaces."
)


class Alone(FlagStruct, frozen=True, kw_only=True):
    """Flags whose counterparts in a run with controllers belong to the controller manager."""

    service_cluster_ip_range: tuple[str, ...] = flag(
        ("10.96.0.0/16",), "CIDR range of Services, which is never allocated to nodes. Two ranges for dual-stack."
    )
    service_account_key_file: str = flag(
        "", "Private key that signs the tokens in Secrets of service accounts. Without it, such tokens are rejected."
    )


FLAGS: tuple[Flag, ...] = (
    *flags_in(EmbeddedServerOptions, section="embedded cluster"),
    *flags_in(Alone, section="embedded cluster"),
    *flags_in(Logging, section="logs"),
    *flags_in(ProcessOptions, section="global"),
)


def main(argv: Sequence[str]) -> int:
    """Run the command, and return its exit code. argv: the arguments after `apiserver`."""
    try:
        parsed = parse(FLAGS, argv)
        if parsed.positional:
            raise FlagError(f"{quote(PROGRAM)} does not take any arguments, got {quote(parsed.positional[0])}")
        groups = fill(FLAGS, parsed.values)
        process: ProcessOptions = groups[ProcessOptions]
        if process.help:
            print(usage(PROGRAM, SUMMARY, FLAGS, columns=shutil.get_terminal_size().columns))
            return 0
        if process.version in ("true", "raw"):
            print(this_version().describe(process.version))
            return 0
        faults = [*embedded_server_faults(groups[EmbeddedServerOptions]), *logging_faults(groups[Logging], alpha=True)]
        if faults:
            raise FlagError("; ".join(faults))
    except FlagError as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    return _serve(groups, given=frozenset(parsed.values), warnings=parsed.warnings)


def _serve(groups: dict[type, Any], *, given: frozenset[str], warnings: Sequence[str]) -> int:
    # Slow to import, and not needed for --help and errors in flags.
    from kcm.actors.command.embedded_directory import directory_of
    from kcm.actors.command.server_settings import server_settings
    from kcm.runtime.apiserver.process.failures import CannotServeError
    from kcm.runtime.apiserver.process.main import run
    from kcm.runtime.logs.configuration import configure_logging, logger_for
    from kcm.runtime.process.standard_streams import is_terminal, write_or_forget
    from kcm.runtime.process.start_state import StartState
    from kcm.runtime.scheduling.clock import SystemClock

    server: EmbeddedServerOptions = groups[EmbeddedServerOptions]
    alone: Alone = groups[Alone]
    enabled = server.enable_plugins
    quiet = not given & {"v", "vmodule", "logging-format"} and is_terminal(sys.stdout) and is_terminal(sys.stderr)
    clock = SystemClock()
    try:
        control = configure_logging(replace(groups[Logging].settings, quiet=quiet), now=clock.now)
    except OSError as err:
        print(f"Error: cannot write logs: {err}", file=sys.stderr)
        return 1
    for warning in warnings:
        logger_for("kcm").warning(warning)
    closing = ExitStack()
    directory = directory_of(server, given=given, closing=closing)

    def announce(url: str, kubeconfig: Path) -> None:
        start = StartState(kubeconfig.parent)
        closing.callback(start.close)
        start.set("", is_ready=True)
        write_or_forget(sys.stdout, greeting(url, kubeconfig, in_memory=server.in_memory))

    settings = replace(
        server_settings(server, directory),
        service_ranges=tuple(cidr.strip() for cidr in alone.service_cluster_ip_range if cidr.strip()),
        account_key_file=alone.service_account_key_file,
        disable_plugins=(*server.disable_plugins, *without_controllers(lambda _needed: False, enable=enabled)),
    )
    try:
        return run(settings, clock=clock, announce=announce)
    except CannotServeError as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    finally:
        closing.close()
        control.close()
        clock.close()


def greeting(url: str, kubeconfig: Path, *, in_memory: bool) -> str:
    """Return the greeting. Its export line can be copied."""
    kept = "deleted then" if in_memory else "kept for the next run"
    return (
        f"The embedded API server serves on {url}, without controllers and nodes.\n"
        "To use it, in another terminal:\n"
        "\n"
        f"    export KUBECONFIG={kubeconfig}\n"
        "    kubectl get namespaces\n"
        "\n"
        f"Press Ctrl-C to stop. The data is {kept}.\n"
    )
