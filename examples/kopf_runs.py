"""Runs of operators that are written with kopf, in tests beside those that are written with kcm."""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import kopf


def registry_of(module: str) -> kopf.OperatorRegistry:
    """Import the module, and return a registry of its handlers alone."""
    usual, own = kopf.get_default_registry(), kopf.OperatorRegistry()
    kopf.set_default_registry(own)
    try:
        importlib.import_module(module)
    finally:
        kopf.set_default_registry(usual)
    return own


@contextmanager
def kopf_running(registry: kopf.OperatorRegistry, **memo: Any) -> Iterator[None]:
    """Run the operator in a thread, with the kubeconfig that the environment names."""
    stop = threading.Event()
    arguments = {"standalone": True, "clusterwide": True, "registry": registry, "stop_flag": stop}
    thread = threading.Thread(target=kopf.run, kwargs={**arguments, "memo": kopf.Memo(**memo)})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()
