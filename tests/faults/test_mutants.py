"""Known bugs, put back in, are found; `python -m tests.faults.mutants.matrix` says how soon."""

from __future__ import annotations

import pytest

from tests.faults.mutants.catalogue import MUTANTS
from tests.faults.mutants.matrix import first_found

# Where each was found first: tried first, so that finding it again is quick.
FOUND = {
    "expectations expire": 4,
    "decisions from a late cache": 9,
    "a silent watch is never renewed": 0,
    "no relist after 410": 0,
    "a relist forgets what is gone": 14,
    "a failure is not tried again": 25,
    "no backoff": 3,
    "a restarted informer has no subscribers": 0,
}
# Not found in 30 seeds. The informer takes nothing that is older than what it shows; the others are held by a second
# line: a manager that has lost its lease ends, a new dispatcher refuses what was submitted to the one before it, and
# pods never get the name of another.
NOT_FOUND = {
    "watch resumed from an item's resourceVersion",
    "a deposed leader writes",
    "a replaced actor works on",
    "deleted by name",
}


def test_the_matrix_has_every_mutant() -> None:
    assert {mutant.name for mutant in MUTANTS} == {*FOUND, *NOT_FOUND}


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.name in FOUND], ids=lambda mutant: mutant.name
)
def test_a_bug_that_kubernetes_once_had_is_found(mutant) -> None:
    assert first_found(mutant, [FOUND[mutant.name], *range(100)]) is not None
