"""What a type checker sees of the public names; checked by mypy and never run."""

from typing import assert_type

import kcm
import kcm.testing
from kcm import ControllerSystem, Key, Outcome, make_key
from kcm import NoSuchName as NoSuchName  # type: ignore[attr-defined]  # an unknown name is an error, not Any
from kcm.testing import SimulatedCluster, parse_faults

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
