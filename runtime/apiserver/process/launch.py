"""Starts the embedded API server as a child process and stops it: the parent's side of main.py."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from select import select

from kcm.protocols.late_methods import dataclass
from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.process.children import ChildProcess, start_module
from kcm.runtime.process.files import identity

MODULE = "kcm.runtime.apiserver.process"
CONTEXT = "kcm"  # the name of the cluster, the user and the context in the kubeconfig
MANAGER, SCHEDULER, HOLLOW_NODES = "kube-controller-manager", "kube-scheduler", "hollow-nodes"
KUBECONFIGS = "kubeconfigs"  # in the directory: those of the control plane's users
NODE_KEY = "tokens/nodes.key"  # in the directory: key of the tokens of nodes
STORE = "cluster.db"  # in the directory
READY_WITHIN = 30.0  # seconds
STOPPED_WITHIN = 15.0  # seconds


class LaunchError(Exception):
    """The server did not start; the text is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """Running server. It ends with this process, or earlier by stop().

    store: identity of the database file at the start, None for a server in memory.
    """

    url: str
    kubeconfig: Path
    child: ChildProcess
    store: tuple[int, int] | None

    def kubeconfig_of(self, user: str) -> Path:
        """Return the kubeconfig of MANAGER, SCHEDULER or HOLLOW_NODES."""
        return self.kubeconfig.parent / KUBECONFIGS / user

    @property
    def node_key(self) -> Path:
        """File with the key of the tokens of nodes."""
        return self.kubeconfig.parent / NODE_KEY

    def is_lost(self) -> bool:
        """Report whether the directory was deleted, moved or replaced: the server then refuses all requests."""
        return self.store is not None and identity(self.kubeconfig.parent / STORE) != self.store

    def stop(self) -> None:
        """Shut down gracefully and wait; kill a server that does not end in time."""
        self.child.stop(STOPPED_WITHIN)


def launch(settings: ServerSettings, *, ready_within: float = READY_WITHIN) -> EmbeddedServer:
    """Start a server, and wait until it serves. Raises LaunchError.

    ready_within: seconds.
    """
    arguments = replace(settings, until_stdin_closes=True).arguments()
    child = start_module(MODULE, [*arguments], read=True)
    words = _first_line(child, ready_within)
    if "url" in words:
        kubeconfig = Path(words["kubeconfig"])
        store = None if settings.in_memory else identity(kubeconfig.parent / STORE)
        return EmbeddedServer(url=words["url"], kubeconfig=kubeconfig, child=child, store=store)
    child.kill()
    raise LaunchError(f"the embedded API server did not start: {words['error']}")


def _first_line(child: ChildProcess, within: float) -> dict[str, str]:
    """Return the line that the process prints: its URL, or an error."""
    assert child.words is not None
    if not select([child.words], [], [], within)[0]:
        return {"error": f"no sign of life for {within:g} s"}
    line = child.words.readline()
    try:
        words = json.loads(line)
    except ValueError:
        return {"error": f"exit code {child.wait()}" if not line else f"unexpected output: {line!r}"}
    return {str(key): str(value) for key, value in words.items()}
