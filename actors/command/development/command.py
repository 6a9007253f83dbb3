"""`run-kcm dev module:SPECS`: runs an operator, and replaces its code when its files change.

Exit codes: 0 after Ctrl-C or SIGTERM; 1 with a line about the error; 2 for malformed arguments.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from kcm.actors.app.arguments import read_options
from kcm.actors.app.connection import api_transport
from kcm.actors.app.local_cluster import LocalCluster
from kcm.actors.app.system import ControllerSystem
from kcm.actors.command.development.modules import Project, ReloadError
from kcm.actors.command.development.observed import LiveSpecs, Reconciliations, has_webhooks
from kcm.actors.command.development.screen import Screen
from kcm.actors.command.generation.manifests import GenerationError, custom_resource_definitions
from kcm.actors.command.generation.programs import NoSpecsError
from kcm.actors.command.manifests import Manifest, ManifestError, apply
from kcm.actors.engine.webhooks.flags import WebhookOptions, webhook_serving
from kcm.actors.engine.webhooks.settings import WebhookServing
from kcm.actors.options import InvalidOptionsError, Options, OtherProgram
from kcm.actors.reconciliation.specs import ControllerSpec, clusters_of
from kcm.runtime.apiserver.process.launch import LaunchError
from kcm.runtime.client.config import ConfigError
from kcm.runtime.client.http_session import OWN_CLIENT
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.flags.declaration import FlagError
from kcm.runtime.process.interrupts import answer_interrupts
from kcm.runtime.process.termination import Ending, on_signals
from kcm.runtime.scheduling.clock import Clock, SystemClock

PLACEHOLDER = "that of run-kcm dev"
LOOK_EVERY = 0.3  # seconds between two looks at the files
ERRORS = (NoSpecsError, GenerationError, ManifestError, LaunchError, ConfigError, FlagError, InvalidOptionsError)


def main(argv: Sequence[str]) -> int:
    """Run the command, and return its exit code. argv: the arguments after `dev`."""
    where = list(argv).index("--") if "--" in argv else len(argv)
    arguments = parser().parse_args(argv[:where])
    answer_interrupts("run-kcm dev")
    stopping = on_signals()
    screen, clock = Screen(sys.stdout), SystemClock()
    logging.getLogger("kcm").addHandler(_Lines(screen))
    try:
        with ExitStack() as stack:
            project = Project(arguments.specs)
            flags = argv[where + 1 :]
            loop = Development(
                project,
                _transports(stack, project.specs, arguments.kubeconfig, flags, screen),
                screen,
                clock,
                flags=flags,
                applies=arguments.kubeconfig is None or arguments.apply,
                owns_cluster=arguments.kubeconfig is None,
            )
            loop.run(stopping)
    except (*ERRORS, ValueError, OSError) as err:
        print(f"Error: {err}", file=sys.stderr)
        return 1
    finally:
        clock.close()
    return 0


def _transports(
    stack: ExitStack,
    specs: Sequence[ControllerSpec],
    kubeconfig: Path | None,
    flags: Sequence[str],
    screen: Screen,
) -> dict[str, HttpTransport]:
    """Return the transports by cluster, only "" for one. kubeconfig: None to start an embedded cluster for each."""
    transports: dict[str, HttpTransport] = {}
    for cluster in clusters_of(specs) or ("",):
        file, context = kubeconfig, ""
        if file is None:
            file = stack.enter_context(_own_cluster())
            screen.write(f"started {f'the cluster {cluster}' if cluster else 'a cluster'}: export KUBECONFIG={file}")
        elif cluster:
            from kcm.actors.app.cluster_flags import context_of  # few programs work on several clusters

            context = context_of(cluster, _options(flags, specs))
        transport = api_transport(file, program="kcm-dev", context=context)
        transports[cluster] = stack.enter_context(transport)
    return transports


def _options(flags: Sequence[str], specs: Sequence[ControllerSpec]) -> Options:
    """Return the options of the operator. Of several clusters the transports are made here, not from --kubeconfig."""
    given = (f"--kubeconfig={PLACEHOLDER}", *flags) if clusters_of(specs) else flags
    return read_options(given, controllers=specs, other=OtherProgram(name="run-kcm dev", defaults={}))


class Development:
    """The operator that runs, and the files that it comes from.

    transports: by cluster, only "" for one.
    applies: whether to apply the CustomResourceDefinitions of the specs, at the start and when they change.
    owns_cluster: whether the clusters were started for it. It serves webhooks there; on other clusters, whose server
        may not reach this process, only if a flag names their address.
    """

    def __init__(
        self,
        project: Project,
        transports: Mapping[str, HttpTransport],
        screen: Screen,
        clock: Clock,
        *,
        flags: Sequence[str] = (),
        applies: bool = True,
        owns_cluster: bool = True,
    ) -> None:
        self._project, self._transports, self._screen, self._clock = project, transports, screen, clock
        self._flags, self._applies, self._owns_cluster = tuple(flags), applies, owns_cluster
        self._seen = Reconciliations(clock, screen.write)
        self._applied: list[object] = []

    def run(self, ending: Ending) -> None:
        """Run until `ending` is set. Raises the errors of ERRORS for specs that cannot run."""
        while not ending.is_set():
            self._apply()
            live = LiveSpecs(self._project.specs, self._seen)
            if {*self._transports} != {*(clusters_of(live.specs) or ("",))}:
                raise ConfigError("the controllers name other clusters now: start run-kcm dev again")
            only, options = self._transports.get(""), _options(self._flags, live.specs)
            system = ControllerSystem(
                transport=only,
                transports=self._transports if only is None else None,
                controllers=live.specs,
                options=options,
                webhooks=self._webhook_serving(options, live.specs),
                program="kcm-dev",
            )
            with system:
                self._screen.write(f"running {', '.join(spec.name for spec in live.specs)}")
                self._follow(system, live, ending)

    def _webhook_serving(self, options: Options, specs: Sequence[ControllerSpec]) -> WebhookServing | None:
        """Return how the webhooks are served; None if there are none or they are not served."""
        if not any(has_webhooks(spec) for spec in specs) or "" not in self._transports:
            return None
        chosen = options[WebhookOptions]
        if not self._owns_cluster and not chosen.webhook_url and not chosen.webhook_service:
            self._screen.write(
                "the webhooks are not served. For a server on this machine: -- --webhook-url=https://127.0.0.1:9443"
            )
            return None
        return webhook_serving(options, name="kcm-dev", in_cluster=False, embeds_cluster=self._owns_cluster)

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
            affected = self._project.affected(changed)
            if not live.fits(self._project.specs) or any(map(live.has_webhooks, affected)):
                self._screen.write(
                    f"{', '.join(changed)} changed, with watches, settings or webhooks: all controllers start again"
                )
                return
            live.replace(self._project.specs)
            for name in affected:
                system.restart(name)
            self._screen.write(f"{', '.join(changed)} changed: restarted {', '.join(affected) or 'nothing'}")

    def _apply(self) -> None:
        """Apply the CustomResourceDefinitions if they have changed. Raises GenerationError and ManifestError."""
        definitions = custom_resource_definitions(self._project.specs)
        if not self._applies or definitions == self._applied:
            return
        for cluster, transport in self._transports.items():
            ask = partial(transport.request, client=OWN_CLIENT, timeout=10.0)
            for name in apply([Manifest("a Definition", obj) for obj in definitions], ask):
                self._screen.write(f"applied {name} on {cluster}" if cluster else f"applied {name}")
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


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run-kcm dev",
        usage="run-kcm dev [options] module:SPECS [-- FLAG ...]",
        description="Run an operator while you edit it. When a file of its folder changes, the actors of the "
        "controllers that use it are restarted with the new code; their tables stay. A file with an error leaves the "
        "code before it running.",
    )
    parser.add_argument("specs", metavar="module:SPECS", help="a ControllerSpec, or several in a tuple or list")
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="cluster to work on, or those of several contexts (default: start embedded ones in memory)",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="apply the CustomResourceDefinitions on the cluster of --kubeconfig; always done on an embedded one",
    )
    return parser
