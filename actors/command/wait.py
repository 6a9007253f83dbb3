"""`run-kcm wait`: wait until the cluster of another run-kcm is ready, for scripts and CI.

The cluster is ready when the nodes are ready, the manifests of --apply are applied, and the controllers work.
Exit codes: 0 when it is ready, 1 with one line on what is missing, 2 if the arguments cannot be read.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from kcm.actors.options.embedded import EmbeddedServerOptions
from kcm.runtime.flags.values import parse_duration
from kcm.runtime.process.start_state import ObservedStart, last_record, observe
from kcm.runtime.process.termination import Ending
from kcm.runtime.scheduling.clock import Clock, SystemClock

CHECK_EVERY = 0.1  # seconds between two checks
TIMEOUT = "60s"


class NotReadyError(Exception):
    """The cluster did not become ready. The text is one line for the user."""


def main(argv: Sequence[str]) -> int:
    """Run the subcommand with the arguments that follow `wait`. Returns the exit code."""
    arguments = parser().parse_args(argv)
    directory: Path = arguments.embedded_dir
    clock = SystemClock()
    try:
        until_ready(directory, timeout=arguments.timeout, clock=clock, sleep=lambda: Ending().wait(CHECK_EVERY))
    except (NotReadyError, OSError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    finally:
        clock.close()
    print(f"The cluster in {directory} is ready: export KUBECONFIG={(directory / 'kubeconfig').resolve()}")
    return 0


def until_ready(directory: Path, *, timeout: float, clock: Clock, sleep: Callable[[], object]) -> None:
    """Return once the cluster is ready. Raises NotReadyError, and OSError if the directory may not be read.

    timeout: seconds.
    If the process has ended, the wait fails at once. If it does not run yet, the wait continues, because scripts
    start `run-kcm … &` and `run-kcm wait` at the same time.
    """
    end, before = clock.monotonic() + timeout, ObservedStart()
    earlier = last_record(directory)
    while True:
        # A new record without a running process belongs to a run that began and ended between two checks. The record is
        # read first, because a run may begin between these two lines.
        ended = last_record(directory) != earlier
        now = observe(directory)
        if now.is_ready:
            return
        if not now.is_running and (ended or before.is_running):
            what = f": {before.text}" if before.is_running else ""
            raise NotReadyError(f"run-kcm in {directory} ended before the cluster was ready{what}")
        if clock.monotonic() >= end:
            what = now.text if now.is_running else "run-kcm is not running with this directory"
            raise NotReadyError(f"the cluster in {directory} is not ready after {timeout:g} s: {what}")
        before = now
        sleep()


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm wait",
        description="Wait until an embedded cluster is ready: its nodes are ready, the manifests of --apply are "
        "applied, and its controllers work. Exits with 1 if it is not ready in time, or if its run-kcm ends.",
    )
    parser.add_argument(
        "--embedded-dir",
        type=Path,
        default=Path(EmbeddedServerOptions().directory),
        metavar="DIR",
        help="directory of the cluster, as given to run-kcm (default %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=_duration,
        default=TIMEOUT,
        metavar="DURATION",
        help="maximum time to wait, such as 90s or 2m (default %(default)s)",
    )
    return parser


def _duration(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from err
    if seconds < 0:
        raise argparse.ArgumentTypeError(f"must not be negative: {text}")
    return seconds
