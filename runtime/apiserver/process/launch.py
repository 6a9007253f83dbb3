"""Starts the embedded API server as a child process and stops it: the parent's side of main.py."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from select import select

from kcm.protocols.admission_plugins import NEED_CONTROLLERS
from kcm.protocols.late_methods import dataclass
from kcm.runtime.apiserver.process.access_settings import BY_ROLES, AccessSettings
from kcm.runtime.process.children import Child, start_module
from kcm.runtime.process.files import identity

MODULE = "kcm.runtime.apiserver.process"
CONTEXT = "kcm"  # the name of the cluster, the user and the context in the kubeconfig
MANAGER, SCHEDULER, HOLLOW_NODES = "kube-controller-manager", "kube-scheduler", "hollow-nodes"
KUBECONFIGS = "kubeconfigs"  # in the directory: those of the control plane's users
NODE_KEY = "tokens/nodes.key"  # in the directory: what tokens of nodes are made of
STORE = "cluster.db"  # in the directory
FULL, RELAXED = "full", "relaxed"  # durability: on disk when it is acknowledged; handed to the system by then
READY_WITHIN = 30.0  # seconds
STOPPED_WITHIN = 15.0  # seconds


class LaunchError(Exception):
    """The server did not start; the text is one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedServer:
    """A running server. It ends with this process, or earlier by stop(). store: the file's identity at the start, None
    for one in memory."""

    url: str
    kubeconfig: Path
    child: Child
    store: tuple[int, int] | None

    def kubeconfig_of(self, user: str) -> Path:
        """user: MANAGER, SCHEDULER or HOLLOW_NODES."""
        return self.kubeconfig.parent / KUBECONFIGS / user

    @property
    def node_key(self) -> Path:
        """The file that tokens of nodes are made of."""
        return self.kubeconfig.parent / NODE_KEY

    def is_lost(self) -> bool:
        """The directory was deleted, moved or replaced: the server refuses all requests, and will not recover."""
        return self.store is not None and identity(self.kubeconfig.parent / STORE) != self.store

    def stop(self) -> None:
        """Shuts it down gracefully and waits; kills a server that does not end in time."""
        self.child.stop(STOPPED_WITHIN)


def launch(
    directory: Path,
    *,
    port: int = 0,
    in_memory: bool = False,
    durability: str = FULL,
    log_format: str = "text",
    quiet: bool = False,
    patience: float = 0.0,
    collect_garbage: bool = True,
    empty_namespaces: bool = True,
    service_ranges: Sequence[str] = (),
    account_key_file: str = "",
    access: AccessSettings = BY_ROLES,
    enable_plugins: Collection[str] = (),
    disable_plugins: Collection[str] = tuple(NEED_CONTROLLERS),
    metrics: bool = True,
    runtime_config: Collection[str] = (),
    ready_within: float = READY_WITHIN,
) -> EmbeddedServer:
    """Starts a server on a directory and waits until it serves. Raises LaunchError.

    port 0: the one of the last time if it is free, else any. in_memory: nothing is stored, and what was is not looked
    at. durability: FULL or RELAXED, which a power cut may take back. log_format: "text" or "json"; quiet: no
    information. patience: seconds for another server to leave the directory. collect_garbage, empty_namespaces: as in
    ApiServer. service_ranges: CIDRs of cluster IPs, one for each IP family; none: the server's own. account_key_file:
    of who signs tokens of service accounts' Secrets; "" for none. access: who may in. enable_plugins,
    disable_plugins: admission plugins that are on beside upstream's default ones, or off; by default those are off that
    rest on controllers. metrics: whether metrics.k8s.io is built in, or left to an APIService of others.
    runtime_config: group versions to serve beside the default ones, as kinds/runtime_config.py reads them.
    """
    arguments = [f"--dir={directory}", f"--port={port}", f"--logging-format={log_format}", f"--patience={patience}"]
    if in_memory:
        arguments.append("--in-memory")
    if durability != FULL:
        arguments.append(f"--durability={durability}")
    if quiet:
        arguments.append("--quiet")
    if not collect_garbage:
        arguments.append("--leave-garbage")
    if not empty_namespaces:
        arguments.append("--leave-namespaces")
    if service_ranges:
        arguments.append(f"--service-cluster-ip-range={','.join(service_ranges)}")
    if account_key_file:
        arguments.append(f"--service-account-key-file={Path(account_key_file).resolve()}")
    if enable_plugins:
        arguments.append(f"--enable-admission-plugins={','.join(enable_plugins)}")
    arguments.extend(access.arguments())
    if runtime_config:
        arguments.append(f"--runtime-config={','.join(runtime_config)}")
    if not metrics:
        arguments.append("--no-metrics")
    if disable_plugins:
        arguments.append(f"--disable-admission-plugins={','.join(disable_plugins)}")
    child = start_module(MODULE, ["--until-stdin-closes", *arguments], read=True)
    words = _first_line(child, ready_within)
    if "url" in words:
        kubeconfig = Path(words["kubeconfig"])
        store = None if in_memory else identity(kubeconfig.parent / STORE)
        return EmbeddedServer(url=words["url"], kubeconfig=kubeconfig, child=child, store=store)
    child.kill()
    raise LaunchError(f"the embedded API server did not start: {words['error']}")


def _first_line(child: Child, within: float) -> dict[str, str]:
    """The line that the process prints: its url, or an error."""
    assert child.words is not None
    if not select([child.words], [], [], within)[0]:
        return {"error": f"no sign of life for {within:g} s"}
    line = child.words.readline()
    try:
        words = json.loads(line)
    except ValueError:
        return {"error": f"exit code {child.wait()}" if not line else f"unexpected output: {line!r}"}
    return {str(key): str(value) for key, value in words.items()}
