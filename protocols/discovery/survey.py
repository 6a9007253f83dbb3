"""Round of discovery requests: the requests that are still open, and the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kcm.protocols.discovery.documents import (
    DiscoveryDocument,
    GroupVersion,
    InvalidDocumentError,
    preferred,
    read_group_version,
    read_root,
)
from kcm.protocols.messages.discovery import ServedResource

ROOTS = ("/api", "/apis")


class Knowledge(NamedTuple):
    """Result of a survey.

    group_versions: as in Document.
    described: resources of each group version, from the last round that could discover them.
    stalled: by group version or root, the reason why the last round could not discover it.
    """

    group_versions: tuple[GroupVersion, ...] = ()
    described: Mapping[GroupVersion, tuple[ServedResource, ...]] = {}
    stalled: Mapping[str, str] = {}

    @property
    def resources(self) -> tuple[ServedResource, ...]:
        """Return the resources that can be watched, each once."""
        return preferred(self.group_versions, self.described)

    @property
    def others(self) -> tuple[ServedResource, ...]:
        """Return the other versions of those resources, and the resources that cannot be watched."""
        found = set(self.resources)
        described = (resource for version in self.group_versions for resource in self.described[version])
        return tuple(resource for resource in described if resource not in found)


class Survey:
    """One round of discovery. If a group cannot be discovered, its resources of the round before are kept."""

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
        """Record a response, and return the paths to request next."""
        if path not in self._open:
            return []
        group_version = self._open.pop(path)
        try:
            if status != 200:
                raise InvalidDocumentError(error or f"discovery answered {status}")
            if group_version is not None:
                self._described[group_version] = read_group_version(body, group_version)
                return []
            document = read_root(body)
        except InvalidDocumentError as err:
            self._fail(path, group_version, str(err))
            return []
        return self._take_root(path, document)

    def give_up(self, why: str) -> None:
        """Record all open requests as failed."""
        for path, group_version in self._open.items():
            self._fail(path, group_version, why)
        self._open = {}

    def knowledge(self) -> Knowledge:
        group_versions = tuple(version for root in ROOTS for version in self._group_versions.get(root, ()))
        before = self._before.described
        described = {version: self._described.get(version, before.get(version, ())) for version in group_versions}
        return Knowledge(group_versions, described, dict(self._stalled))

    def _take_root(self, root: str, document: DiscoveryDocument) -> list[str]:
        self._group_versions[root] = document.group_versions
        self._described.update(document.described)
        self._stalled.update({str(version): why for version, why in document.stalled.items()})
        answered = {*document.described, *document.stalled}
        asked = [version for version in document.group_versions if version not in answered]
        self._open.update({version.path: version for version in asked})
        return [version.path for version in asked]

    def _fail(self, path: str, group_version: GroupVersion | None, why: str) -> None:
        if group_version is not None:
            self._stalled[str(group_version)] = why
        else:
            self._stalled[path] = why
            self._group_versions[path] = tuple(_under(path, self._before.group_versions))


def _under(root: str, group_versions: Iterable[GroupVersion]) -> Iterable[GroupVersion]:
    return (version for version in group_versions if bool(version.group) == (root == "/apis"))
