"""Index of the interests of all subscribers, for finding the subscribers that a change concerns.

Each distinct interest is indexed by its most selective condition: an index value, a finalizer, an owner's kind, a
fact's value, or a changed fact. A change is looked up by its values, and only the interests found are tested for their
other conditions. So the cost of a change depends on the subscriptions concerned, not on the number of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kcm.protocols.messages.watches import ORPHANS, EventType, Interest
from kcm.runtime.tables.entry import OWNERSHIP, Entry

_ABSENT = object()


class Transition:
    """Change of one object, as conditions test it.

    previous: the entry before the change, or None.
    renewed: the condition `changed` is met regardless of the facts. See Interest.
    """

    __slots__ = ("entry", "previous", "remade", "renewed", "type")

    def __init__(self, type: str, entry: Entry, previous: Entry | None) -> None:
        self.type, self.entry = type, entry
        self.previous = None if previous is entry else previous
        self.remade = previous is not None and previous.uid != entry.uid
        self.renewed = (
            type != EventType.MODIFIED
            or previous is None
            or self.remade
            or (previous.controller is not entry.controller and previous.controller != entry.controller)
        )

    def owner_kinds(self) -> tuple[str, ...]:
        """Return the kind of the controller owner, after and before the change."""
        kind = _owner_kind(self.entry)
        if self.previous is None or (before := _owner_kind(self.previous)) == kind:
            return (kind,)
        return kind, before

    def finalizers(self) -> Iterable[str]:
        """Return the finalizers after and before the change, possibly with duplicates."""
        if self.previous is None or self.previous.finalizers == self.entry.finalizers:
            return self.entry.finalizers
        return (*self.entry.finalizers, *self.previous.finalizers)

    def index_values(self) -> Iterable[tuple[str, str]]:
        """Return the index values after and before the change, possibly with duplicates."""
        if self.previous is None or self.previous.values == self.entry.values:
            return self.entry.values
        return (*self.entry.values, *self.previous.values)

    def has_changed(self, fact: str) -> bool:
        """Report whether the fact has changed. A fact that the table does not derive counts as changed."""
        if self.renewed or self.previous is None:
            return True
        before = getattr(self.previous.facts, fact, _ABSENT)
        after = getattr(self.entry.facts, fact, _ABSENT)
        return after is _ABSENT or (before is not after and before != after)

    def owners_changed(self) -> bool:
        """Report whether the owners have changed, or whether the object blocks their deletion."""
        before, after = self.previous, self.entry
        if self.type != EventType.MODIFIED or before is None or self.remade:
            return True
        if before.values is after.values or before.values == after.values:
            return False
        return _ownership(before) != _ownership(after)

    def fact_values(self, fact: str) -> tuple[Any, ...]:
        """Return the values of the fact, after and before the change."""
        after = getattr(self.entry.facts, fact, None)
        return (after,) if self.previous is None else (after, getattr(self.previous.facts, fact, None))


def _ownership(entry: Entry) -> list[tuple[str, str]]:
    return [value for value in entry.values if value[0] in OWNERSHIP]


def _owner_kind(entry: Entry) -> str:
    return ORPHANS if entry.controller is None else entry.controller.kind


Test = Callable[[Transition], bool]


def _tests(interest: Interest) -> dict[str, Test]:
    """Return the tests of the interest's conditions by name, the most selective first."""
    tests: dict[str, Test] = {}
    if interest.indexed:
        pairs = frozenset(interest.indexed)
        tests["indexed"] = lambda change: not pairs.isdisjoint(change.index_values())
    if interest.finalizers:
        finalizers = frozenset(interest.finalizers)
        tests["finalizers"] = lambda change: not finalizers.isdisjoint(change.finalizers())
    if interest.owner_kinds:
        kinds = frozenset(interest.owner_kinds)
        tests["owner_kinds"] = lambda change: not kinds.isdisjoint(change.owner_kinds())
    if interest.having:
        tests["having"] = lambda change: all(
            any(value in values for value in change.fact_values(fact)) for fact, values in interest.having
        )
    if interest.owners:
        tests["owners"] = Transition.owners_changed
    if interest.changed:
        tests["changed"] = lambda change: change.renewed or any(map(change.has_changed, interest.changed))
    if interest.filled:
        tests["filled"] = lambda change: all(any(change.fact_values(fact)) for fact in interest.filled)
    if interest.types:
        types = frozenset(interest.types)
        tests["types"] = lambda change: change.remade or change.type in types
    return tests


def meets(change: Transition, interest: Interest) -> bool:
    """Report whether a change concerns a watch with this interest."""
    return all(test(change) for test in _tests(interest).values())


class _Rule:
    """Distinct interest.

    receivers: (subscriber, bit of its watch).
    rest: conditions that the lookup does not test.
    """

    __slots__ = ("interest", "receivers", "rest")

    def __init__(self, interest: Interest) -> None:
        self.interest = interest
        self.receivers: list[tuple[str, int]] = []
        self.rest: tuple[Test, ...] = ()


class InterestIndex:
    """Compiled interests of all subscribers of one table. A changed subscription requires a new index."""

    def __init__(self, subscriptions: Mapping[str, Sequence[Interest | None]]) -> None:
        """Compile the interests of each subscriber; None keeps the position of a watch that another index contains."""
        self._by_index: dict[tuple[str, str], list[_Rule]] = {}
        self._by_finalizer: dict[str, list[_Rule]] = {}
        self._by_owner: dict[str, list[_Rule]] = {}
        self._by_fact: dict[str, dict[Any, list[_Rule]]] = {}
        self._by_changed: dict[str, list[_Rule]] = {}
        self._others: list[_Rule] = []
        rules: dict[Interest, _Rule] = {}
        for subscriber, interests in subscriptions.items():
            for position, interest in enumerate(interests):
                if interest is not None:
                    rule = rules.setdefault(interest, _Rule(interest))
                    rule.receivers.append((subscriber, 1 << position))
        for rule in rules.values():
            self._file(rule)

    def concerned(self, type: str, entry: Entry, previous: Entry | None) -> dict[str, int]:
        """Return the watches concerned, per subscriber, as bits (see WatchEvents.matches)."""
        return self.concerned_by(Transition(type, entry, previous))

    def concerned_by(self, change: Transition) -> dict[str, int]:
        found: dict[str, int] = {}
        for rules in self._candidates(change):
            for rule in rules:
                for test in rule.rest:
                    if not test(change):
                        break
                else:
                    for subscriber, bit in rule.receivers:
                        found[subscriber] = found.get(subscriber, 0) | bit
        return found

    def _file(self, rule: _Rule) -> None:
        interest, tests = rule.interest, _tests(rule.interest)
        first = next(iter(tests), "")
        match first:
            case "indexed":
                for pair in dict.fromkeys(interest.indexed):
                    self._by_index.setdefault(pair, []).append(rule)
            case "finalizers":
                for finalizer in dict.fromkeys(interest.finalizers):
                    self._by_finalizer.setdefault(finalizer, []).append(rule)
            case "owner_kinds":
                for kind in dict.fromkeys(interest.owner_kinds):
                    self._by_owner.setdefault(kind, []).append(rule)
            case "having":
                fact, values = interest.having[0]
                by_value = self._by_fact.setdefault(fact, {})
                for value in dict.fromkeys(values):
                    by_value.setdefault(value, []).append(rule)
                if len(interest.having) == 1:
                    del tests["having"]
            case "changed":
                for fact in dict.fromkeys(interest.changed):
                    self._by_changed.setdefault(fact, []).append(rule)
            case _:
                self._others.append(rule)
        if first not in ("having", "owners", "filled", "types"):
            tests.pop(first, None)
        rule.rest = tuple(tests.values())

    def _candidates(self, change: Transition) -> Iterable[list[_Rule]]:
        """Yield the rules indexed by a value of the change; a rule may occur more than once."""
        if self._others:
            yield self._others
        if self._by_owner:
            for kind in change.owner_kinds():
                if kind in self._by_owner:
                    yield self._by_owner[kind]
        if self._by_index:
            for pair in change.index_values():
                if pair in self._by_index:
                    yield self._by_index[pair]
        if self._by_finalizer:
            for finalizer in change.finalizers():
                if finalizer in self._by_finalizer:
                    yield self._by_finalizer[finalizer]
        for fact, by_value in self._by_fact.items():
            for value in change.fact_values(fact):
                if value in by_value:
                    yield by_value[value]
        for fact, rules in self._by_changed.items():
            if change.has_changed(fact):
                yield rules
