"""Start and stop of the embedded API server as a child process. main.py is the code of the child."""

from __future__ import annotations

import json
from pathlib import Path
from select import select

from msgspec import Struct
from msgspec.structs import replace

from kcm.runtime.apiserver.process.settings import ServerSettings
from kcm.runtime.process.children import ChildProcess, start_module
from kcm.runtime.process.files import identity

MODULE = "kcm.runtime.apiserver.process"
CONTEXT = "kcm"  # the name of the cluster, the user and the context in the kubeconfig
MANAGER, SCHEDULER, HOLLOW_NODES = "kube-controller-manager", "kube-scheduler", "hollow-nodes"
# Paths in the server's directory.
KUBECONFIGS = "kubeconfigs"  # one kubeconfig for each control plane component
NODE_KEY = "tokens/nodes.key"  # key from which the tokens of nodes are derived
STORE = "cluster.db"  # SQLite database
READY_WITHIN = 30.0  # seconds
STOPPED_WITHIN = 15.0  # seconds


class LaunchError(Exception):
    """The server did not start. The text is one line for the user."""


class EmbeddedServer(Struct, frozen=True, kw_only=True):
    """Running embedded API server. It ends with this process, or when `stop` is called."""

    url: str
    kubeconfig: Path
    child: ChildProcess
    store: tuple[int, int] | None  # (device, inode) of the database file at the start; None for a server in memory

    def kubeconfig_of(self, user: str) -> Path:
        """Return the path of a component's kubeconfig. user: MANAGER, SCHEDULER or HOLLOW_NODES."""
        return self.kubeconfig.parent / KUBECONFIGS / user

    @property
    def node_key(self) -> Path:
        """Path of the file with the key from which the tokens of nodes are derived."""
        return self.kubeconfig.parent / NODE_KEY

    def is_lost(self) -> bool:
        """Report whether the database file was deleted, moved or replaced. The server then refuses all requests."""
        return self.store is not None and identity(self.kubeconfig.parent / STORE) != self.store

    def stop(self) -> None:
        """Shut the server down gracefully, and wait. It is killed after STOPPED_WITHIN seconds."""
        self.child.stop(STOPPED_WITHIN)


def launch(settings: ServerSettings, *, ready_within: float = READY_WITHIN) -> EmbeddedServer:
    """Start a server as a child process, and wait until it is ready.

    ready_within: maximum seconds to wait

    Raises LaunchError if the server ends, or is not ready in time.
    """
    arguments = replace(settings, until_stdin_closes=True).arguments()
    child = start_module(MODULE, [*arguments], read=True)
    fields = _first_line(child, ready_within)
    if "url" in fields:
        kubeconfig = Path(fields["kubeconfig"])
        store = None if settings.in_memory else identity(kubeconfig.parent / STORE)
        return EmbeddedServer(url=fields["url"], kubeconfig=kubeconfig, child=child, store=store)
    child.kill()
    raise LaunchError(f"the embedded API server did not start: {fields['error']}")


def _first_line(child: ChildProcess, within: float) -> dict[str, str]:
    """Return the fields that the child process prints when it is ready: url and kubeconfig, or error.

    within: maximum seconds to wait; afterwards the result contains an error
    """
    assert child.words is not None
    if not select([child.words], [], [], within)[0]:
        return {"error": f"not ready after {within:g} s"}
    line = child.words.readline()
    try:
        fields = json.loads(line)
    except ValueError:
        return {"error": f"exit code {child.wait()}" if not line else f"unexpected output: {line!r}"}
    return {str(key): str(value) for key, value in fields.items()}
