"""The names of this room for tests of other programs' controllers; what is not here may change without notice.

Apart from public.py, because they bring the API server and the simulator along.
"""

from actors.campaign.checking import must_hold
from actors.campaign.scenarios import Wish, end_state, unsettled
from actors.campaign.setting import Fleet, Setting
from actors.invariants.watching import (
    Answered,
    CarriedOut,
    Committed,
    Happening,
    Invariant,
    LetIn,
    ObjectTo,
    ProcessStarted,
    Sent,
    Submitted,
)
from actors.local_cluster import LocalCluster
from actors.simulation import SimulatedCluster

__all__ = [
    "Answered",
    "CarriedOut",
    "Committed",
    "Fleet",
    "Happening",
    "Invariant",
    "LetIn",
    "LocalCluster",
    "ObjectTo",
    "ProcessStarted",
    "Sent",
    "Setting",
    "SimulatedCluster",
    "Submitted",
    "Wish",
    "end_state",
    "must_hold",
    "unsettled",
]
