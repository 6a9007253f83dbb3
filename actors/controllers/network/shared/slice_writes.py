"""How slices are written, and which changes of slices are our own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kcm.actors.controllers.network.shared.slices import SliceChange
from kcm.actors.controllers.shared.generated_names import as_if_generated, generate_name, generated_names
from kcm.actors.controllers.shared.pod_control import is_namespace_terminating
from kcm.actors.reconciliation import Step, create, delete, get_live, must, own, together, update
from kcm.protocols.messages.outcomes import AlreadyExists, CommandError, Done, NotFound, Outcome, Unknown
from kcm.protocols.objects import Key, Object, key_of, make_key, metadata, name_of, namespace_of, uid_of
from kcm.protocols.resources import ENDPOINT_SLICES, Resource
from kcm.runtime.tables.lister import Lister


class SliceWrites:
    """Remembers the newest version of each slice that was written here, and names that may be taken unseen."""

    def __init__(self, slices: Lister, *, changed: Callable[[str], None]) -> None:
        """changed: called with "create", "update" or "delete" for each slice that was written."""
        self._slices, self._changed = slices, changed
        self._written: dict[Key, int] = {}
        self._gone: set[str] = set()  # uids of slices that were deleted here, until the watch shows it
        self._unsure: dict[Key, list[str]] = {}  # by owner

    def is_foreign(self, change: SliceChange, manager: str) -> bool:
        """Whether somebody else has changed a slice that this controller manages, or did."""
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
        self._unsure.pop(owner, None)

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
        """In this order: creations at once, updates one after the other, deletions at once.

        While one update is under way, changes of pods gather: a rollout costs fewer writes than with updates at once.
        Returns False where the namespace is being terminated, and takes none. Raises CommandError for the first that
        failed; later updates, and what comes after its list, are not sent.
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

        again = [name for name in self._unsure.pop(key, ()) if not taken(make_key(namespace, name))]
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
                case AlreadyExists():  # ours, made by a request whose answer was lost; or somebody's
                    yield from must(get_live(ENDPOINT_SLICES, make_key(namespace, name)), but=(NotFound,))
                    failure = failure or CommandError(command, outcome)
                case _:
                    if isinstance(outcome, Unknown):
                        self._unsure.setdefault(key, []).append(name)
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
        """All at once. Raises CommandError for the first that failed."""
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
