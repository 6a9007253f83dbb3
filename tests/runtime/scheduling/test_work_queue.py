"""The work queue has client-go's guarantees. Times are passed by the test."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.runtime.scheduling.backoff import Backoff
from kcm.runtime.scheduling.events_first import EventsFirst
from kcm.runtime.scheduling.work_queue import Pending, WorkQueue


def queue(**more: object) -> WorkQueue[str]:
    return WorkQueue(now=0.0, **more)  # type: ignore[arg-type]


def test_a_key_added_twice_is_taken_once() -> None:
    q = queue()
    q.add("a", 0.0)
    q.add("a", 0.0)
    assert (q.take(0.0), q.take(0.0)) == ("a", None)


def test_key_added_during_its_sync_is_taken_once_more_afterwards() -> None:
    q = queue()
    q.add("a", 0.0)
    q.take(0.0)
    q.add("a", 1.0)
    q.add("a", 1.0)
    assert q.take(1.0) is None, "one at a time"
    q.done("a", 2.0)
    assert q.take(2.0) == "a"
    q.done("a", 3.0)
    assert q.take(3.0) is None


def test_key_that_has_waited_longest_is_not_one_that_is_being_processed() -> None:
    q = queue()
    assert q.oldest_waiting() is None
    for moment, key in enumerate("abc"):
        q.add(key, float(moment))
    assert q.oldest_waiting() == ("a", 0.0)
    q.take(3.0)
    q.add("a", 4.0)
    assert q.oldest_waiting() == ("b", 1.0)
    q.take(5.0)
    q.take(5.0)
    assert q.oldest_waiting() is None, "a waits for the end of its own sync"
    q.done("a", 6.0)
    assert q.oldest_waiting() == ("a", 4.0)


def test_groups_of_keys_take_turns() -> None:
    q = queue(turn_of=lambda key: key[0])
    for key in ("a1", "a2", "a3", "b1", "c1", "b2"):
        q.add(key, 0.0)
    assert len(q) == 6
    assert [q.take(0.0) for _ in range(7)] == ["a1", "b1", "c1", "a2", "b2", "a3", None]


def test_key_added_during_its_sync_goes_to_the_end_of_its_group() -> None:
    q = queue(turn_of=lambda key: key[0])
    for key in ("a1", "a2", "b1"):
        q.add(key, 0.0)
    assert q.take(0.0) == "a1"
    q.add("a1", 0.0)
    q.done("a1", 0.0)
    assert [q.take(0.0) for _ in range(3)] == ["b1", "a2", "a1"]


def test_keys_are_taken_in_the_order_in_which_they_were_first_added() -> None:
    q = queue()
    for key in "abcab":
        q.add(key, 0.0)
    assert [q.take(0.0) for _ in range(4)] == ["a", "b", "c", None]


@pytest.mark.parametrize("delays", [(0.050, 0.030), (0.030, 0.060)])
def test_earliest_of_several_delays_takes_precedence(delays: tuple[float, float]) -> None:
    q = queue()
    for delay in delays:
        q.add_after("a", delay, 0.0)
    assert q.next_due() == pytest.approx(0.030)
    assert q.take(0.029) is None
    assert q.take(0.030) == "a"
    q.done("a", 0.030)
    assert q.take(1.0) is None, "it fires once"


def test_zero_delay_is_due_at_once() -> None:
    q = queue()
    q.add_after("a", 0.0, 5.0)
    assert q.take(5.0) == "a"


def test_failures_back_off_by_key_and_start_over_after_forget() -> None:
    q = queue(per_key=Backoff(first=0.001, factor=2.0, most=1000.0))
    assert [q.add_rate_limited("a", float(second)) for second in range(5)] == [0.001, 0.002, 0.004, 0.008, 0.016]
    assert q.add_rate_limited("b", 4.0) == 0.001
    assert q.failures("a") == 5
    q.forget("a")
    assert q.add_rate_limited("a", 4.0) == 0.001


def test_failures_during_a_backoff_do_not_extend_it() -> None:
    """The failures of syncs that events caused during the backoff do not count."""
    q = queue(per_key=Backoff(first=8.0, factor=2.0, most=1000.0))
    assert q.add_rate_limited("a", 0.0) == 8.0
    assert [q.add_rate_limited("a", 2.0) for _ in range(20)] == [6.0] * 20
    assert (q.failures("a"), q.next_due()) == (1, 8.0)
    assert q.take(8.0) == "a"
    q.done("a", 8.0)
    assert q.add_rate_limited("a", 8.0) == 16.0


def test_a_backoff_never_overflows() -> None:
    assert Backoff(first=0.005, factor=2.0, most=1000.0).delay(100_000) == 1000.0


def test_retries_of_all_keys_share_a_limit_of_ten_per_second() -> None:
    q = queue()
    delays = [q.add_rate_limited(f"k{i}", 0.0) for i in range(102)]
    assert delays[:100] == [0.005] * 100
    assert delays[101] == pytest.approx(0.1)


STEPS = st.tuples(st.sampled_from(["add", "listed", "after", "take", "done"]), st.sampled_from("abc"))


@pytest.mark.parametrize("kind", [WorkQueue, EventsFirst])
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=60))
def test_no_key_is_synced_concurrently_or_lost(kind: type[WorkQueue[str]], steps: list[tuple[str, str]]) -> None:
    q, now = kind(now=0.0), 0.0
    in_work: set[str] = set()
    pending: set[str] = set()  # added since they were last taken
    for step, key in steps:
        now += 0.01
        if step == "add":
            q.add(key, now)
            pending.add(key)
        elif step == "listed":
            q.add_listed(key, now)
            pending.add(key)
        elif step == "after":
            q.add_after(key, 0.02, now)
            pending.add(key)
        elif step == "take":
            taken = q.take(now)
            if taken is not None:
                assert taken not in in_work
                in_work.add(taken)
                pending.discard(taken)
        elif key in in_work:
            in_work.discard(key)
            q.done(key, now)
    for key in list(in_work):
        q.done(key, now)
    rest = set()
    while (taken := q.take(now + 10.0)) is not None:
        rest.add(taken)
        q.done(taken, now + 10.0)
    assert pending <= rest
    assert (len(q), q.processing, q.delayed) == (0, 0, 0)


def taken(q: WorkQueue[str], now: float) -> str:
    keys = ""
    while (key := q.take(now)) is not None:
        keys += key
        q.done(key, now)
    return keys


def events_first() -> EventsFirst[str]:
    return EventsFirst(now=0.0)


def test_keys_of_events_precede_listed_keys() -> None:
    q = events_first()
    for key in "abc":
        q.add_listed(key, 0.0)
    q.add("x", 0.0)
    q.add("b", 0.0)
    assert len(q) == 4
    assert taken(q, 0.0) == "xbac"


def test_plain_queue_returns_listed_keys_in_order() -> None:
    q = queue()
    q.add_listed("a", 0.0)
    q.add("b", 0.0)
    assert taken(q, 0.0) == "ab"


def test_failed_listed_key_stays_listed_until_an_event_adds_it() -> None:
    q = events_first()
    for key in "ab":
        q.add_listed(key, 0.0)
        assert q.take(0.0) == key
        q.add_rate_limited(key, 0.0)
        q.done(key, 0.0)
    q.add("b", 1.0)
    q.add("x", 1.0)
    assert taken(q, 1.0) == "bxa"


def test_resync_does_not_turn_a_key_of_an_event_into_a_listed_key() -> None:
    q = events_first()
    q.add("a", 0.0)
    assert q.take(0.0) == "a"
    q.add_rate_limited("a", 0.0)
    q.done("a", 0.0)
    q.add_listed("z", 0.0)
    q.add_listed("a", 0.0)
    assert taken(q, 1.0) == "az"


def test_listed_key_that_changes_during_its_sync_precedes_other_listed_keys() -> None:
    q = events_first()
    for key in "abc":
        q.add_listed(key, 0.0)
    assert q.take(0.0) == "a"
    q.add("a", 0.0)
    q.done("a", 0.0)
    assert taken(q, 0.0) == "abc"


@pytest.mark.parametrize("kind", [WorkQueue, EventsFirst])
def test_pending_contains_the_state_of_each_key_until_it_is_done(kind: type[WorkQueue[str]]) -> None:
    q = kind(now=0.0)
    for now, key in enumerate(("in work", "in work and queued", "queued")):
        q.add(key, float(now))
    q.add_after("delayed", 10.0, 3.0)
    assert [q.take(4.0), q.take(5.0)] == ["in work", "in work and queued"]
    q.add("in work and queued", 6.0)
    assert q.pending() == {
        "in work": Pending(queued=None, due=None, taken=4.0),
        "in work and queued": Pending(queued=6.0, due=None, taken=5.0),
        "queued": Pending(queued=2.0, due=None, taken=None),
        "delayed": Pending(queued=None, due=13.0, taken=None),
    }
    q.done("in work", 7.0)
    assert "in work" not in q.pending()
