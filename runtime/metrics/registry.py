"""Counters, gauges and histograms with cheap updates; runtime/serving/metrics_page.py formats them.

    metrics = Metrics()
    adds = metrics.counter(WORKQUEUE_ADDS, "replicaset")    # once, at the start
    adds.inc()                                              # in the hot path

There are no locks. Each series is updated by one or a few threads with a single `x += n`: within such a statement
CPython with its GIL does not switch threads (it does so at calls and at backward jumps). A reader may see a histogram
whose sum already includes an observation that its buckets do not; the next read is consistent.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Literal, TypeVar

from msgspec import Struct

from kcm.protocols.arguments import check_each, check_number, check_text, check_type, one_of

S = TypeVar("S", "Counter", "Gauge", "Histogram")
UNEXPECTED = "unexpected"  # label value instead of one that is not allowed, as upstream


class Family(Struct, frozen=True, kw_only=True):
    """Metric: all series with one name.

    buckets: of a histogram, the upper bounds in ascending order, without +Inf.
    stability: upstream's level, STABLE, BETA or ALPHA (component-base/metrics).
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    stability: str = "ALPHA"

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for values that Prometheus' text format does not allow."""
        check_text("name of a Family", self.name)
        one_of(f"kind of the metric {self.name}", self.kind, ("counter", "gauge", "histogram"))
        check_text(f"help of the metric {self.name}", self.help, may_be_empty=True)
        check_each(f"labels of the metric {self.name}", self.labels, check_text)
        check_each(f"buckets of the metric {self.name}", self.buckets, check_number)


class Counter:
    """Value that only increases."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self.value += amount


class Gauge:
    """Value that increases and decreases, or is read by a function at each scrape."""

    __slots__ = ("_read", "_value")

    def __init__(self) -> None:
        self._value = 0.0
        self._read: Callable[[], float] | None = None

    def set(self, value: float) -> None:
        self._value = value

    def inc(self, amount: float = 1.0) -> None:
        self._value += amount

    def read_from(self, read: Callable[[], float]) -> None:
        """Call `read` for the value at each scrape, on the thread of the scrape."""
        self._read = read

    def read_least(self, read: Callable[[], float]) -> None:
        """Show the least value of this function and of the functions that were passed before."""
        others = self._read
        self._read = read if others is None else lambda: min(others(), read())

    @property
    def value(self) -> float:
        return self._value if self._read is None else self._read()


class Histogram:
    """Distribution of observations in buckets."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # observations in each bucket, not cumulated; the last: above every bound
        self.sum = 0.0

    def observe(self, value: float) -> None:
        index = bisect_left(self.bounds, value)
        self.counts[index] += 1
        self.sum += value


Series = Counter | Gauge | Histogram
Reading = tuple[Family, tuple[str, ...], float]  # one gauge: its family, its label values, its value


class Metrics:
    """Metrics of a process, or of a part of it. The same family and labels always return the same series."""

    def __init__(
        self,
        *,
        disabled: Iterable[str] = (),
        allowed_labels: Mapping[tuple[str, str], Collection[str]] = MappingProxyType({}),
    ) -> None:
        """Create an empty registry.

        disabled: names of families that are not collected.
        allowed_labels: by name of a family and of its label, the values that are kept; others become "unexpected".
        """
        self._families: dict[str, tuple[Family, dict[tuple[str, ...], Series]]] = {}
        self._sources: dict[object, Callable[[], Iterable[Reading]]] = {}
        self._disabled, self._allowed_labels = frozenset(disabled), allowed_labels
        self.unexpected = 0  # label values that allowed_labels replaced

    def counter(self, family: Family, *labels: str) -> Counter:
        return self._series(family, labels, Counter, Counter)

    def gauge(self, family: Family, *labels: str) -> Gauge:
        return self._series(family, labels, Gauge, Gauge)

    def histogram(self, family: Family, *labels: str) -> Histogram:
        return self._series(family, labels, Histogram, lambda: Histogram(family.buckets))

    def remove(self, family: Family, *labels: str) -> None:
        """Remove a series, such as that of a deleted zone."""
        known = self._families.get(family.name)
        if known is not None:
            known[1].pop(labels, None)

    def remove_all(self, family: Family) -> None:
        """Remove all series of a family, such as those of an earlier incarnation of an actor."""
        self._families.pop(family.name, None)

    def clear(self) -> None:
        """Remove all series. References to removed series remain usable, but their values are not shown."""
        self._families.clear()

    def add_source(self, read: Callable[[], Iterable[Reading]], *, name: str = "") -> None:
        """Call `read` at each scrape, on its thread, for a varying set of gauges.

        name: replaces the source of this name, which belonged to an earlier incarnation of an actor; "" adds a source.
        """
        self._sources[name or object()] = read

    def collect(self) -> Iterator[tuple[Family, list[tuple[tuple[str, ...], Series]]]]:
        """Yield the families sorted by name, each with its series by label values."""
        for source in list(self._sources.values()):
            for family, labels, value in source():
                self.gauge(family, *labels).set(value)
        for name, (family, series) in sorted(self._families.copy().items()):
            if name not in self._disabled:
                yield family, sorted(series.copy().items(), key=lambda item: item[0])

    def families(self) -> list[Family]:
        """Return the families that have series, without the disabled ones."""
        return [family for name, (family, _) in self._families.copy().items() if name not in self._disabled]

    @property
    def disabled(self) -> frozenset[str]:
        """Return the names of the families that are not collected."""
        return self._disabled

    def _limited(self, family: Family, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Replace the label values that are not among the allowed ones."""
        limited = list(labels)
        for index, (label, value) in enumerate(zip(family.labels, labels, strict=False)):
            allowed = self._allowed_labels.get((family.name, label))
            if allowed is not None and value not in allowed:
                limited[index] = UNEXPECTED
                self.unexpected += 1
        return tuple(limited)

    def _series(self, family: Family, labels: tuple[str, ...], kind: type[S], make: Callable[[], S]) -> S:
        check_type("a metric", family, Family, "a Family")
        check_each(f"labels of {family.name}", labels, partial(check_text, may_be_empty=True))
        known = self._families.get(family.name)
        if known is None:
            known = self._families.setdefault(family.name, (family, {}))
        declared, series = known
        if self._allowed_labels:
            labels = self._limited(family, labels)
        found = series.get(labels)
        if found is None:
            if declared != family:
                raise ValueError(f"two different families are named {family.name}")
            if len(labels) != len(family.labels):
                raise ValueError(f"{family.name} has the labels {family.labels}, got the values {labels}")
            if family.kind != kind.__name__.lower():
                raise ValueError(f"{family.name} is a {family.kind}, not a {kind.__name__.lower()}")
            # setdefault, so that two concurrent threads get the same series
            found = series.setdefault(labels, make())
        assert isinstance(found, kind)
        return found
