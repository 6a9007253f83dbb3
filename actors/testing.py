"""The names of this room for tests of other programs' controllers; what is not here may change without notice.

Apart from public.py, because they bring the API server and the simulator along.
"""

from actors.app.local_cluster import LocalCluster
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.checking import must_hold
from actors.simulation.campaign.scenarios import Wish, end_state, unsettled
from actors.simulation.campaign.setting import Fleet, Setting
from actors.simulation.invariants.watching import (
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
