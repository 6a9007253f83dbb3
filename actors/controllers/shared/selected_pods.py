"""Selection of pods by labels."""

from __future__ import annotations

from kcm.protocols.selectors import LabelSelector
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry


def selected_pods(pods: Lister, namespace: str, selector: LabelSelector) -> list[Entry]:
    """Return the pods of the namespace that the selector matches, as entries of the informer cache sorted by name."""
    known: dict[int, bool] = {}  # pods with equal labels share one mapping
    found = []
    for entry in pods.entries(namespace):
        labels = entry.facts.labels
        selected = known.get(id(labels))
        if selected is None:
            selected = known[id(labels)] = selector.matches(labels)
        if selected:
            found.append(entry)
    return sorted(found, key=lambda entry: entry.key)
