"""The ledger of commands in flight, which notifies a restarted controller when those of its predecessor are settled."""

from __future__ import annotations

import pytest

from kcm.runtime.system.ledger import Ledger, Passage, Statement

PODS, NODES = "v1/pods", "v1/nodes"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def clear(ledger: Ledger, *, sender: str = "gc", before: int) -> list[Statement]:
    """Return the list in which a successor receives its statements, now or later."""
    statements: list[Statement] = []
    ledger.when_clear(sender, before, statements.append)
    return statements


def test_sender_without_commands_is_cleared_at_once(ledger: Ledger) -> None:
    assert clear(ledger, before=1) == [Statement({}, ())]


def test_a_successor_waits_for_every_command_of_its_predecessors(ledger: Ledger) -> None:
    first, second = Passage(incarnation=1, ticket=1, number=0), Passage(incarnation=2, ticket=1, number=0)
    ledger.sent("gc", first)
    ledger.sent("gc", second)
    statements = clear(ledger, before=3)
    ledger.settled("gc", second, PODS, 7)
    assert statements == []
    ledger.settled("gc", first, PODS, 0)
    assert statements == [Statement({PODS: 7}, ())]


def test_own_commands_and_commands_from_other_senders_do_not_delay_a_successor(ledger: Ledger) -> None:
    own = Passage(incarnation=2, ticket=5, number=1)
    ledger.sent("gc", own)
    ledger.sent("other", Passage(incarnation=1, ticket=1, number=0))
    assert clear(ledger, before=2) == [Statement({}, (own,))]
    assert ledger.under_way() == 2


def test_a_successor_is_called_once(ledger: Ledger) -> None:
    passage = Passage(incarnation=1, ticket=1, number=0)
    ledger.sent("gc", passage)
    statements = clear(ledger, before=2)
    for _ in range(2):
        ledger.settled("gc", passage, PODS, 3)
    assert len(statements) == 1


def test_the_newest_version_of_each_resource_is_kept(ledger: Ledger) -> None:
    for ticket, (resource, version) in enumerate([(PODS, 5), (NODES, 9), (PODS, 3), (NODES, 0)]):
        passage = Passage(incarnation=1, ticket=ticket, number=0)
        ledger.sent("gc", passage)
        ledger.settled("gc", passage, resource, version)
    assert clear(ledger, before=2) == [Statement({PODS: 5, NODES: 9}, ())]
    assert ledger.under_way() == 0
