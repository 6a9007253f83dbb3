"""What a type checker sees of the public names; checked by mypy and never run."""

from typing import assert_type

import kcm
import kcm.testing
from kcm import ControllerSystem, Key, Outcome, make_key
from kcm import NoSuchName as NoSuchName  # type: ignore[attr-defined]  # an unknown name is an error, not Any
from kcm.testing import SimulatedCluster, parse_faults

NODES = kcm.Resource(version="v1", plural="nodes", kind="Node", namespaced=False)

assert_type(make_key("default", "web"), Key)
assert_type(kcm.testing.SimulatedCluster(seed=7, faults=parse_faults("")), SimulatedCluster)


def drain(system: ControllerSystem) -> bool:
    return assert_type(system.stop(5.0), bool)


def outcome(of: Outcome) -> str:
    match of:
        case kcm.Done():
            return "done"
        case kcm.NotFound() | kcm.Conflict():
            return "gone"
        case _:
            return "failed"


def campaign() -> None:
    assert_type(kcm.testing.run_campaign(kcm.testing.Setting(), range(3), jobs=2).failed, list[kcm.testing.Tried])
    assert_type(kcm.testing.user_creates(1.0, NODES, kcm.testing.node()), kcm.testing.Action)


def served(system: ControllerSystem) -> None:
    with kcm.LocalCluster.start("cluster", nodes=1) as cluster, kcm.serve(system, "127.0.0.1:0") as pages:
        assert_type(cluster.url, str)
        assert_type(pages.url, str)


# Calls of what is outside: what the function returns is what the call returns.


def size(of: str) -> int:
    return len(of)


async def size_later(of: str) -> int:
    return len(of)


def asking(key: Key) -> kcm.Reconciliation:
    assert_type((yield from kcm.call(size, key, timeout=5)), int)
    assert_type((yield from kcm.call(size_later, key)), int)
    kcm.call("no function")  # type: ignore[call-overload]
    return None


async def awaiting(key: Key) -> None:
    assert_type(await kcm.call(size, key), int)
    assert_type(await kcm.call(size_later, key), int)
