"""What the process of the embedded API server is told."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from kcm.protocols.late_methods import dataclass
from kcm.runtime.apiserver.core.cluster import SERVICE_RANGES
from kcm.runtime.apiserver.process.access_settings import BY_ROLES, AccessSettings, access_settings, add_arguments
from kcm.runtime.apiserver.process.launch import FULL, RELAXED


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """in_memory: nothing is stored. durability: FULL or RELAXED. patience: seconds."""

    directory: Path
    port: int = 0
    in_memory: bool = False
    durability: str = FULL
    log_format: str = "text"
    until_stdin_closes: bool = False
    quiet: bool = False
    patience: float = 0.0
    collect_garbage: bool = True
    empty_namespaces: bool = True
    service_ranges: tuple[str, ...] = SERVICE_RANGES
    account_key_file: str = ""
    access: AccessSettings = BY_ROLES
    enable_plugins: tuple[str, ...] = ()
    disable_plugins: tuple[str, ...] = ()
    metrics: bool = True
    runtime_config: tuple[str, ...] = ()


def parse_arguments(argv: Sequence[str] | None) -> Arguments:
    parser = argparse.ArgumentParser(
        prog="python -m kcm.runtime.apiserver.process", description="An embedded API server."
    )
    parser.add_argument("--dir", type=Path, default=Path(".kcm"), help="where all of its files are kept")
    parser.add_argument("--port", type=int, default=0, help="port on loopback; 0 for a free one")
    parser.add_argument("--in-memory", action="store_true", help="store nothing")
    parser.add_argument("--durability", choices=(FULL, RELAXED), default=FULL, help="of what is acknowledged")
    parser.add_argument("--logging-format", choices=("text", "json"), default="text", help="of log lines")
    parser.add_argument("--quiet", action="store_true", help="log warnings and errors only")
    parser.add_argument("--until-stdin-closes", action="store_true", help="end when standard input does")
    parser.add_argument("--patience", type=float, default=0.0, help="seconds for another to leave the directory")
    parser.add_argument("--leave-garbage", action="store_true", help="to a garbage collector that runs as a controller")
    parser.add_argument("--leave-namespaces", action="store_true", help="to a namespace controller, likewise")
    parser.add_argument("--service-cluster-ip-range", default=",".join(SERVICE_RANGES), help="one, or one each family")
    for which in ("enable", "disable"):
        parser.add_argument(f"--{which}-admission-plugins", default="", help=f"those of upstream's to {which}")
    parser.add_argument("--service-account-key-file", default="", help="of who signs the tokens of Secrets; private")
    parser.add_argument("--runtime-config", default="", help="group versions that are off by default, as upstream")
    parser.add_argument("--no-metrics", action="store_true", help="leave metrics.k8s.io to an APIService of others")
    add_arguments(parser)
    parsed = parser.parse_args(argv)
    return Arguments(
        directory=parsed.dir,
        port=parsed.port,
        in_memory=parsed.in_memory,
        durability=parsed.durability,
        log_format=parsed.logging_format,
        until_stdin_closes=parsed.until_stdin_closes,
        quiet=parsed.quiet,
        patience=parsed.patience,
        collect_garbage=not parsed.leave_garbage,
        empty_namespaces=not parsed.leave_namespaces,
        service_ranges=_listed(parsed.service_cluster_ip_range),
        account_key_file=parsed.service_account_key_file,
        access=access_settings(parsed),
        enable_plugins=_listed(parsed.enable_admission_plugins),
        disable_plugins=_listed(parsed.disable_admission_plugins),
        metrics=not parsed.no_metrics,
        runtime_config=_listed(parsed.runtime_config),
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())
