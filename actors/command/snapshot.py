"""`run-kcm snapshot save FILE` and `run-kcm snapshot restore FILE`, for the embedded cluster.

Exit codes: 0, or 1 with a line about the error; 2 for malformed arguments.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from kcm.actors.app.connection import connect
from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.runtime.apiserver.process.launch import CONTEXT
from kcm.runtime.apiserver.process.snapshots import Send, SnapshotError, restore, save
from kcm.runtime.client.config import ConfigError
from kcm.runtime.client.connection_settings import load_config
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.logs.standard_log import standard_log
from kcm.runtime.metrics.registry import Metrics
from kcm.runtime.scheduling.clock import SystemClock

PATIENCE = 600.0  # seconds, for a large store


def main(argv: Sequence[str]) -> int:
    """Run the command, and return its exit code. argv: the arguments after `snapshot`."""
    arguments = parser().parse_args(argv)
    file, directory = arguments.file, arguments.embedded_dir
    try:
        if arguments.what == "save":
            with ExitStack() as closing:
                save(directory, file, partial(_ask_server_of, directory, closing))
            print(f"Saved the cluster in {directory} to {file}.")
        else:
            revision = restore(file, directory)
            print(
                f"Restored {file} (revision {revision}) into {directory}. "
                f"Start the cluster with run-kcm --embedded-dir={directory}"
            )
    except (SnapshotError, ConfigError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    return 0


def _ask_server_of(directory: Path, closing: ExitStack) -> Send:
    """Return a function that sends requests to the server of a directory. Raises ConfigError."""
    clock, metrics = SystemClock(), Metrics()
    closing.callback(clock.close)
    config = load_config(
        kubeconfig=str(directory / "kubeconfig"),
        master=None,
        context=CONTEXT,
        environ=os.environ,
        clock=clock,
        metrics=metrics,
    )
    transport = connect(config, clock=clock, metrics=metrics, log=standard_log("kcm"))
    closing.callback(transport.close, timeout=2.0)
    return partial(transport.request, client=OWN_CLIENT, timeout=PATIENCE)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm snapshot",
        description="Save the data of an embedded cluster to a file, even while it runs, or restore it elsewhere.",
    )
    what = parser.add_subparsers(dest="what", required=True)
    for name, text in (
        ("save", "save the data of the cluster to a new file"),
        ("restore", "restore a file to an empty or new directory, with new certificates and tokens"),
    ):
        command = what.add_parser(name, help=text, description=text)
        command.add_argument("file", type=Path, help="path of the snapshot")
        command.add_argument(
            "--embedded-dir",
            type=Path,
            default=Path(EmbeddedServerOptions().directory),
            metavar="DIR",
            help="directory of the cluster (default %(default)s)",
        )
    return parser
