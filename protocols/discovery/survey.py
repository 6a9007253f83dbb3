"""One round of discovery: what is still to be asked, and what is known once all has been answered, or has failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcm.protocols.discovery.documents import (
    Document,
    GroupVersion,
    UnreadableError,
    preferred,
    read_group_version,
    read_root,
)
from kcm.protocols.messages.discovery import ServedResource

ROOTS = ("/api", "/apis")


class Knowledge(NamedTuple):
    """group_versions: as in Document. described: the resources of each, as far as they were ever discovered.

    stalled: by group version or root, why the last round could not discover it.
    """

    group_versions: tuple[GroupVersion, ...] = ()
    described: Mapping[GroupVersion, tuple[ServedResource, ...]] = {}
    stalled: Mapping[str, str] = {}

    @property
    def resources(self) -> tuple[ServedResource, ...]:
        """Those that can be watched, each once."""
        return preferred(self.group_versions, self.described)

    @property
    def others(self) -> tuple[ServedResource, ...]:
        """In further versions, or not to be watched."""
        found = set(self.resources)
        return tuple(one for version in self.group_versions for one in self.described[version] if one not in found)


class Survey:
    """A broken group stalls only itself: what was known of it before is kept."""

    def __init__(self, before: Knowledge) -> None:
        self._before = before
        self._open: dict[str, GroupVersion | None] = dict.fromkeys(ROOTS)  # by path; None for a root
        self._group_versions: dict[str, tuple[GroupVersion, ...]] = {}  # by root
        self._described: dict[GroupVersion, tuple[ServedResource, ...]] = {}
        self._stalled: dict[str, str] = {}

    @property
    def is_over(self) -> bool:
        return not self._open

    def answered(self, path: str, *, status: int, body: bytes, error: str) -> list[str]:
        """Returns the paths that are to be asked now."""
        if path not in self._open:
            return []
        group_version = self._open.pop(path)
        try:
            if status != 200:
                raise UnreadableError(error or f"discovery answered {status}")
            if group_version is not None:
                self._described[group_version] = read_group_version(body, group_version)
                return []
            document = read_root(body)
        except UnreadableError as err:
            self._fail(path, group_version, str(err))
            return []
        return self._take_root(path, document)

    def give_up(self, why: str) -> None:
        """What is not answered by now counts as failed."""
        for path, group_version in self._open.items():
            self._fail(path, group_version, why)
        self._open = {}

    def knowledge(self) -> Knowledge:
        group_versions = tuple(one for root in ROOTS for one in self._group_versions.get(root, ()))
        before = self._before.described
        described = {one: self._described.get(one, before.get(one, ())) for one in group_versions}
        return Knowledge(group_versions, described, dict(self._stalled))

    def _take_root(self, root: str, document: Document) -> list[str]:
        self._group_versions[root] = document.group_versions
        self._described.update(document.described)
        self._stalled.update({str(one): why for one, why in document.stalled.items()})
        answered = {*document.described, *document.stalled}
        asked = [one for one in document.group_versions if one not in answered]
        self._open.update({one.path: one for one in asked})
        return [one.path for one in asked]

    def _fail(self, path: str, group_version: GroupVersion | None, why: str) -> None:
        if group_version is not None:
            self._stalled[str(group_version)] = why
        else:
            self._stalled[path] = why
            self._group_versions[path] = tuple(_under(path, self._before.group_versions))


def _under(root: str, group_versions: Iterable[GroupVersion]) -> Iterable[GroupVersion]:
    return (one for one in group_versions if bool(one.group) == (root == "/apis"))
