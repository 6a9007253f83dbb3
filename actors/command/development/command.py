"""`run-kcm dev module:SPECS`: runs an operator, and replaces its code when its files change.

Exit codes: 0 after Ctrl-C or SIGTERM; 1 with a line about the error; 2 for malformed arguments.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from kcm.actors.app.arguments import read_options
from kcm.actors.app.connection import api_transport
from kcm.actors.app.local_cluster import LocalCluster
from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.development.modules import Project, ReloadError
from kcm.actors.command.development.observed import LiveSpecs, Reconciliations
from kcm.actors.command.development.screen import Screen
from kcm.actors.command.generation.manifests import GenerationError, custom_resource_definitions
from kcm.actors.command.generation.programs import NoSpecsError
from kcm.actors.command.manifests import Manifest, ManifestError, apply
from kcm.actors.options import InvalidOptionsError, OtherProgram
from kcm.actors.reconciliation.specs import clusters_of
from kcm.runtime.apiserver.process.launch import LaunchError
from kcm.runtime.client.config import ConfigError
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.process.interrupts import answer_interrupts
from kcm.runtime.process.termination import Ending
from kcm.runtime.scheduling.clock import Clock, SystemClock

LOOK_EVERY = 0.3  # seconds between two looks at the files
ERRORS = (NoSpecsError, GenerationError, ManifestError, LaunchError, ConfigError, FlagError, InvalidOptionsError)


def main(argv: Sequence[str]) -> int:
    """Run the command, and return its exit code. argv: the arguments after `dev`."""
    where = list(argv).index("--") if "--" in argv else len(argv)
    arguments = _parser().parse_args(argv[:where])
    answer_interrupts("run-kcm dev")
    screen, clock = Screen(sys.stdout), SystemClock()
    logging.getLogger("kcm").addHandler(_Lines(screen))
    try:
        with ExitStack() as stack:
            project = Project(arguments.specs)
            if clusters := clusters_of(project.specs):
                raise ConfigError(
                    f"run-kcm dev works on one cluster, and the controllers on {', '.join(clusters)}: use kcm.main"
                )
            kubeconfig = arguments.kubeconfig
            if kubeconfig is None:
                kubeconfig = stack.enter_context(_own_cluster())
                screen.write(f"started a cluster: export KUBECONFIG={kubeconfig}")
            transport = stack.enter_context(api_transport(kubeconfig, program="kcm-dev"))
            loop = Development(
                project,
                transport,
                screen,
                clock,
                flags=argv[where + 1 :],
                applies=arguments.kubeconfig is None or arguments.apply,
            )
            loop.run(Ending())
    except KeyboardInterrupt:
        return 0
    except (*ERRORS, ValueError, OSError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    finally:
        clock.close()
    return 0


class Development:
    """The operator that runs, and the files that it comes from.

    applies: whether to apply the CustomResourceDefinitions of the specs, at the start and when they change.
    """

    def __init__(
        self,
        project: Project,
        transport: HttpTransport,
        screen: Screen,
        clock: Clock,
        *,
        flags: Sequence[str] = (),
        applies: bool = True,
    ) -> None:
        self._project, self._transport, self._screen, self._clock = project, transport, screen, clock
        self._flags, self._applies = tuple(flags), applies
        self._seen = Reconciliations(clock, screen.write)
        self._applied: list[object] = []

    def run(self, ending: Ending) -> None:
        """Run until `ending` is set or an interrupt. Raises the errors of ERRORS for specs that cannot run."""
        while not ending.is_set():
            self._apply()
            live = LiveSpecs(self._project.specs, self._seen)
            other = OtherProgram(name="run-kcm dev", defaults={})
            options = read_options(self._flags, controllers=live.specs, other=other)
            system = ControllerSystem(
                transport=self._transport, controllers=live.specs, options=options, program="kcm-dev"
            )
            with system:
                self._screen.write(f"running {', '.join(spec.name for spec in live.specs)}")
                self._follow(system, live, ending)

    def _follow(self, system: ControllerSystem, live: LiveSpecs, ending: Ending) -> None:
        """Replace the code of changed files, until a change needs a new system."""
        title = f"kcm dev: {', '.join(spec.name for spec in live.specs)} (Ctrl-C ends it)"
        while not ending.wait(LOOK_EVERY):
            if (end := system.end) is not None:
                raise ConfigError(f"the controllers have ended: {end}")
            self._screen.show(title, list(self._seen.rows.values()), self._clock.monotonic())
            changed = self._project.changed()
            if not changed:
                continue
            try:
                self._project.reload()
                self._apply()
            except (ReloadError, GenerationError, ManifestError) as err:
                self._screen.write(f"{', '.join(changed)} changed, and the code before the change still runs:\n{err}")
                continue
            if not live.fits(self._project.specs):
                self._screen.write(
                    f"{', '.join(changed)} changed, with watches or settings: all controllers start again"
                )
                return
            affected = self._project.affected(changed)
            live.replace(self._project.specs)
            for name in affected:
                system.restart(name)
            self._screen.write(f"{', '.join(changed)} changed: restarted {', '.join(affected) or 'nothing'}")

    def _apply(self) -> None:
        """Apply the CustomResourceDefinitions if they have changed. Raises GenerationError and ManifestError."""
        definitions = custom_resource_definitions(self._project.specs)
        if not self._applies or definitions == self._applied:
            return
        ask = partial(self._transport.request, client=OWN_CLIENT, timeout=10.0)
        for name in apply([Manifest("a Definition", obj) for obj in definitions], ask):
            self._screen.write(f"applied {name}")
        self._applied = [*definitions]


class _Lines(logging.Handler):
    """Handler that writes warnings and errors of kcm; tracebacks of reconciliations are written where they occur."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        self._screen.write(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def _own_cluster() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kcm-dev-") as directory:
        with LocalCluster.start(directory, in_memory=True) as cluster:
            yield cluster.kubeconfig


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm dev",
        usage="run-kcm dev [options] module:SPECS [-- FLAG ...]",
        description="Run an operator while you edit it. When a file of its folder changes, the actors of the "
        "controllers that use it are restarted with the new code; their tables stay. A file with an error leaves the "
        "code before it running.",
    )
    parser.add_argument("specs", metavar="module:SPECS", help="a ControllerSpec, or several in a tuple or list")
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="cluster to work on (default: start an embedded one in memory)"
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="apply the CustomResourceDefinitions on the cluster of --kubeconfig; always done on an embedded one",
    )
    return parser
