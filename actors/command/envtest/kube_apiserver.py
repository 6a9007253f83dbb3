"""The program `kube-apiserver` of envtest: the embedded API server with kube-apiserver's flags.

The objects are stored in the --data-dir of the program `etcd` beside it. Exit codes: 0 after SIGTERM or Ctrl-C, 1 if it
cannot start or can no longer store writes.

Source of the errors: kubernetes v1.36 cmd/kube-apiserver/app/options/validation.go, apiserver
pkg/server/options/serving.go, pkg/kubeapiserver/options/authentication.go and authorization.go.
"""

from __future__ import annotations

import ipaddress
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kcm.actors.command.envtest.apiserver_flags import ApiServerFlags, Extras, other_flags, refusal
from kcm.actors.options.feature_gates import BULK, GATES
from kcm.actors.options.general import Logging, ProcessOptions
from kcm.actors.options.validation import logging_faults
from kcm.protocols.addresses import is_address
from kcm.protocols.admission_plugins import KNOWN
from kcm.runtime.envtest.etcd_directory import is_url
from kcm.runtime.flags.declaration import Flag, FlagError, fill, flags_in, parse, usage
from kcm.runtime.flags.values import parse_bool, quote
from kcm.runtime.process.version import this_version

PROGRAM = "kube-apiserver"
SUMMARY = (
    "Serves the Kubernetes API for tests that start a kube-apiserver, such as those of controller-runtime's envtest. "
    "It is the embedded API server of kcm."
)
PATIENCE = 10.0  # seconds for an earlier API server of the same etcd to end
MODES = ("AlwaysAllow", "AlwaysDeny", "ABAC", "Webhook", "RBAC", "Node")
# Admission plugins of Kubernetes 1.36 that the embedded server does not have; all are off by default.
OTHER_PLUGINS = frozenset(
    {
        "AlwaysAdmit",
        "AlwaysDeny",
        "EventRateLimit",
        "ExtendedResourceToleration",
        "ImagePolicyWebhook",
        "LimitPodHardAntiAffinityTopology",
        "NamespaceAutoProvision",
        "NamespaceExists",
        "NodeDeclaredFeatureValidator",
        "PodNodeSelector",
        "PodTolerationRestriction",
    }
)
OWN: tuple[Flag, ...] = (
    *flags_in(ApiServerFlags, section="API server"),
    *flags_in(Extras, section="kcm"),
    *flags_in(Logging, section="logs"),
    *flags_in(ProcessOptions, section="global"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program, and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        groups, warnings = read_flags(arguments)
    except FlagError as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    process: ProcessOptions = groups[ProcessOptions]
    if process.help:
        print(usage(PROGRAM, SUMMARY, (*OWN, *other_flags()), columns=shutil.get_terminal_size().columns))
        return 0
    if process.version in ("true", "raw"):
        print(f"Kubernetes v{this_version().kubernetes}")
        return 0
    faults = [*flag_faults(groups[ApiServerFlags]), *logging_faults(groups[Logging], alpha=True)]
    if faults:
        print(f"Error: [{', '.join(faults)}]", file=sys.stderr)
        return 1
    return _serve(groups, warnings)


def read_flags(argv: Sequence[str]) -> tuple[dict[type, Any], tuple[str, ...]]:
    """Parse a command line; return its groups and the warnings. Raises FlagError."""
    parsed = parse((*OWN, *other_flags()), argv)
    if parsed.positional:
        raise FlagError(f"{quote(PROGRAM)} does not take any arguments, got [{quote(parsed.positional[0])}]")
    refused = refusal(parsed.values)
    if refused:
        raise FlagError(refused)
    return fill(OWN, parsed.values), parsed.warnings


def flag_faults(flags: ApiServerFlags) -> Iterator[str]:
    """Yield an error for each flag that kube-apiserver would refuse, or that is not supported here."""
    if not flags.etcd_servers:
        yield "--etcd-servers must be specified"
    port = flags.secure_port
    if not 1 <= port <= 65535:
        yield f"--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
    if not is_address(flags.bind_address):
        yield f'invalid argument "{flags.bind_address}" for "--bind-address" flag: failed to parse IP'
    if bool(flags.tls_cert_file) != bool(flags.tls_private_key_file):
        yield "--tls-cert-file and --tls-private-key-file must be specified together"
    yield from _issuer_faults(flags)
    yield from _mode_faults(flags.authorization_mode)
    yield from _gate_faults(flags.feature_gates)
    for plugin in (*flags.enable_admission_plugins, *flags.disable_admission_plugins):
        if plugin not in KNOWN and plugin not in OTHER_PLUGINS:
            yield f'admission-control plugin "{plugin}" is unknown'
    for plugin in flags.enable_admission_plugins:
        if plugin in OTHER_PLUGINS:
            yield f"--enable-admission-plugins: the plugin {plugin} is not supported here"
    for number, text in enumerate(flags.service_cluster_ip_range.split(",")):
        try:
            ipaddress.ip_network(text.strip(), strict=False)
        except ValueError:
            yield f"service-cluster-ip-range[{number}] is not a valid CIDR: {text}"


def _issuer_faults(flags: ApiServerFlags) -> Iterator[str]:
    if not flags.service_account_issuer:
        yield "service-account-issuer is a required flag"
    if not flags.service_account_key_file:
        yield "either `--service-account-key-file` or `--service-account-signing-endpoint` must be set"
    if not flags.service_account_signing_key_file:
        yield "--service-account-signing-key-file and --service-account-issuer are required flags"
    seen: set[str] = set()
    for issuer in flags.service_account_issuer:
        if not issuer:
            yield "service-account-issuer should not be an empty string"
        elif issuer in seen:
            yield f'service-account-issuer "{issuer}" is already specified'
        elif ":" in issuer and not is_url(issuer):
            yield f"service-account-issuer \"{issuer}\" contained a ':' but was not a valid URL"
        seen.add(issuer)


def _mode_faults(modes: Sequence[str]) -> Iterator[str]:
    for mode in modes:
        if mode not in MODES:
            yield f'authorization-mode "{mode}" is not a valid mode'
        elif mode in ("AlwaysDeny", "ABAC", "Webhook"):
            yield f"--authorization-mode={mode} is not supported here: only RBAC, Node and AlwaysAllow are implemented"
        elif modes.count(mode) > 1:
            yield f'authorization-mode "{mode}" has mode specified more than once'
            return


def _gate_faults(assignments: Sequence[str]) -> Iterator[str]:
    for assignment in assignments:
        name, equals, value = assignment.strip().partition("=")
        if not equals:
            yield f"missing bool value for feature gate {name}"
            continue
        try:
            parse_bool(value)
        except ValueError:
            yield f"invalid value of {name}: {value}"
        if name.rpartition(":")[2] not in GATES and name not in BULK:
            yield f"unrecognized feature gate: {name}"


def _serve(groups: dict[type, Any], warnings: Sequence[str]) -> int:
    # Slow to import, and not needed for --help and errors in flags.
    from kcm.actors.command.envtest.server_settings import server_settings
    from kcm.runtime.apiserver.process.failures import CannotServeError
    from kcm.runtime.apiserver.process.main import run
    from kcm.runtime.envtest.etcd_directory import EtcdUnusableError, find_directory
    from kcm.runtime.logs.configuration import configure_logging, logger_for
    from kcm.runtime.process.termination import Ending
    from kcm.runtime.scheduling.clock import SystemClock

    flags: ApiServerFlags = groups[ApiServerFlags]
    clock = SystemClock()
    try:
        control = configure_logging(groups[Logging].settings, now=clock.now)
    except OSError as err:
        print(f"Error: cannot write logs: {err}", file=sys.stderr)
        return 1
    log = logger_for("kcm")
    for warning in warnings:
        log.warning(warning)
    try:
        etcd = find_directory(flags.etcd_servers[0], clock=clock, sleep=Ending().wait)
        settings = server_settings(flags, groups[Extras], etcd, patience=PATIENCE, now=clock.now())
        return run(settings, clock=clock, announce=_announce)
    except (CannotServeError, EtcdUnusableError, OSError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    finally:
        control.close()
        clock.close()


def _announce(_url: str, _kubeconfig: Path) -> None:
    """Print nothing, as kube-apiserver."""


if __name__ == "__main__":
    sys.exit(main())
