"""Blind trial: stuck objects by an author who has not read the rules. docs/why-trial.md has the result.

python -m tests.actors.explanation.trial --blind
"""

from __future__ import annotations

from tests.actors.explanation.blind_cluster import CLUSTER
from tests.actors.explanation.blind_placement import PLACEMENT
from tests.actors.explanation.blind_refusals import REFUSALS
from tests.actors.explanation.blind_second import SECOND
from tests.actors.explanation.blind_third import THIRD
from tests.actors.explanation.blind_workloads import WORKLOADS

BLIND = (*WORKLOADS, *REFUSALS, *PLACEMENT, *CLUSTER, *SECOND, *THIRD)
