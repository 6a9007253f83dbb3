"""Writes of EndpointSlices, and the detection of changes by other clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kcm.actors.controllers.network.shared.slices import SliceChange
from kcm.actors.controllers.shared.generated_names import as_if_generated, generate_name, generated_names
from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.reconciliation import Step, create, delete, get_live, must, own, together, update
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.outcomes import AlreadyExists, Done, NotFound, Outcome, Unknown
from kcm.protocols.objects import Key, Object, key_of, make_key, metadata, name_of, namespace_of, uid_of
from kcm.protocols.resources import ENDPOINT_SLICES, Resource
from kcm.runtime.tables.lister import Lister


class SliceWrites:
    """Keeps the newest version of each slice that it wrote, and the names of slices that may have been created."""

    def __init__(self, slices: Lister, *, changed: Callable[[str], None]) -> None:
        """Take the table of slices. changed: called with "create", "update" or "delete" for each write."""
        self._slices, self._changed = slices, changed
        self._written: dict[Key, int] = {}
        self._gone: set[str] = set()  # uids of slices that were deleted here, until the watch reports it
        self._maybe_created: dict[Key, list[str]] = {}  # names of slices by owner

    def is_foreign(self, change: SliceChange, manager: str) -> bool:
        """Report whether another client has changed a slice that this controller manages, or managed before."""
        if change.deleted:
            known = self._written.pop(change.slice, None) is not None
            if change.uid in self._gone:
                self._gone.discard(change.uid)
                return False
        else:
            version = self._written.get(change.slice)
            if version is not None and change.version <= version:
                return False
            known = version is not None
        return known or manager in change.managers

    def forget(self, owner: Key) -> None:
        self._maybe_created.pop(owner, None)

    def _deleted(self, slice_: Object) -> None:
        self._gone.add(uid_of(slice_))
        self._written.pop(key_of(slice_), None)
        self._changed("delete")

    def write(
        self,
        key: Key,
        owner: Object,
        owners: Resource,
        *,
        create: Sequence[Object],
        update: Sequence[Object],
        delete: Sequence[Object],
    ) -> Step[bool]:
        """Send all creations at once, then the updates sequentially, then all deletions at once.

        During an update further changes of pods arrive, so a rollout needs fewer writes than with concurrent updates.

        Returns False if the namespace is terminating. Raises CommandError for the first failure; then later updates and
        the lists after the failed one are not sent.
        """
        if create and not (yield from self._create(key, owner, owners, create)):
            return False
        yield from self._update(update)
        yield from self.delete(delete)
        return True

    def _create(self, key: Key, owner: Object, owners: Resource, slices: Sequence[Object]) -> Step[bool]:
        namespace = namespace_of(owner)

        def taken(name: Key) -> bool:
            return self._slices.entry(name) is not None

        again = [name for name in self._maybe_created.pop(key, ()) if not taken(make_key(namespace, name))]
        fresh = generated_names(owner, len(slices), taken=taken)
        names = list(dict.fromkeys([*again, *fresh]))[: len(slices)]
        base = generate_name(name_of(owner))
        commands = [
            create(
                ENDPOINT_SLICES,
                own(
                    {**slice_, "metadata": {**metadata(slice_), "name": name, "generateName": base}},
                    by=owner,
                    of=owners,
                ),
            )
            for slice_, name in zip(slices, names, strict=True)
        ]
        outcomes = yield from together(commands)
        failure: CommandError | None = None
        terminating = False
        for command, name, outcome in zip(commands, names, outcomes, strict=True):
            match outcome:
                case Done():
                    self._remember(make_key(namespace, name), "create")
                case _ if is_namespace_terminating(outcome):
                    terminating = True
                case AlreadyExists():  # created by an earlier request with unknown outcome, or by another client
                    yield from must(get_live(ENDPOINT_SLICES, make_key(namespace, name)), but=(NotFound,))
                    failure = failure or CommandError(command, outcome)
                case _:
                    if isinstance(outcome, Unknown):
                        self._maybe_created.setdefault(key, []).append(name)
                    failure = failure or CommandError(command, as_if_generated(outcome, name, base=base))
        if terminating:
            return False
        if failure is not None:
            raise failure
        return True

    def _update(self, slices: Iterable[Object]) -> Step[None]:
        for slice_ in slices:
            yield from must(update(ENDPOINT_SLICES, slice_))
            self._remember(key_of(slice_), "update")

    def delete(self, slices: Sequence[Object]) -> Step[None]:
        """Send all deletions at once. Raises CommandError for the first failure."""
        commands = [delete(ENDPOINT_SLICES, slice_) for slice_ in slices]
        outcomes: list[Outcome] = yield from together(commands)
        failure: CommandError | None = None
        for command, slice_, outcome in zip(commands, slices, outcomes, strict=True):
            if isinstance(outcome, Done):
                self._deleted(slice_)
            elif not isinstance(outcome, NotFound):
                failure = failure or CommandError(command, outcome)
        if failure is not None:
            raise failure

    def _remember(self, key: Key, operation: str) -> None:
        entry = self._slices.entry(key)
        if entry is not None:
            self._written[key] = max(self._written.get(key, 0), entry.resource_version)
        self._changed(operation)
