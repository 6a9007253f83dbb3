"""Creation, update and deletion of EndpointSlices, and the detection of changes by other clients."""

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
    """Writer of the EndpointSlices of one controller.

    It records the resourceVersions that its writes produced, to recognize them in watch events, and the names of slices
    whose creation had an unknown outcome, to retry the creation under the same name.
    """

    def __init__(self, slices: Lister, *, changed: Callable[[str], None]) -> None:
        """Create the writer.

        changed: callback for each successful write, with "create", "update" or "delete".
        """
        self._slices, self._changed = slices, changed
        self._written: dict[Key, int] = {}
        # Slices that this writer has deleted, until the watch reports their deletions.
        self._deleted_uids: set[str] = set()
        self._maybe_created: dict[Key, list[str]] = {}  # names of slices by owner, after creations with unknown outcome

    def is_foreign(self, change: SliceChange, manager: str) -> bool:
        """Report whether another client has made this change to an EndpointSlice of this controller.

        A slice belongs to the controller if its managed-by label names it, before or after the change, or if the
        controller has written it.

        manager: value of the managed-by label of this controller.
        """
        if change.deleted:
            known = self._written.pop(change.slice, None) is not None
            if change.uid in self._deleted_uids:
                self._deleted_uids.discard(change.uid)
                return False
        else:
            version = self._written.get(change.slice)
            if version is not None and change.version <= version:
                return False
            known = version is not None
        return known or manager in change.managers

    def version(self, slice_: Key) -> int | None:
        """Return the resourceVersion of the last write of a slice by this writer, or None."""
        return self._written.get(slice_)

    def forget(self, owner: Key) -> None:
        self._maybe_created.pop(owner, None)

    def _deleted(self, slice_: Object) -> None:
        self._deleted_uids.add(uid_of(slice_))
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
        """Write EndpointSlices: creations concurrently, then the updates one by one, then deletions concurrently.

        Updates are not concurrent, so that changes of pods that arrive meanwhile are collected for the next sync. With
        this a rollout needs fewer writes.

        key: key of the owner.
        owner: Service or Endpoints that the new slices belong to; `owners` is its resource.
        create: slices without names, which are generated.
        update: slices with the resourceVersion as precondition.
        Returns False, after the creations, if the namespace is terminating. Raises CommandError for the first failure,
        and does not send the writes that come after it in this order.
        """
        if create and not (yield from self._create(key, owner, owners, create)):
            return False
        yield from self._update(update)
        yield from self.delete(delete)
        return True

    def _create(self, key: Key, owner: Object, owners: Resource, slices: Sequence[Object]) -> Step[bool]:
        """Create EndpointSlices concurrently, first under the names of creations with unknown outcome.

        Returns False if the namespace is terminating. Raises CommandError for the first failure.
        """
        namespace = namespace_of(owner)

        def taken(name: Key) -> bool:
            return self._slices.entry(name) is not None

        retried = [name for name in self._maybe_created.pop(key, ()) if not taken(make_key(namespace, name))]
        new_names = generated_names(owner, len(slices), taken=taken)
        names = list(dict.fromkeys([*retried, *new_names]))[: len(slices)]
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
                    self._record_write(make_key(namespace, name), "create")
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
            self._record_write(key_of(slice_), "update")

    def delete(self, slices: Sequence[Object]) -> Step[None]:
        """Delete these EndpointSlices concurrently.

        Raises CommandError for the first failure, after all deletions have been sent.
        """
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

    def _record_write(self, key: Key, operation: str) -> None:
        entry = self._slices.entry(key)
        if entry is not None:
            self._written[key] = max(self._written.get(key, 0), entry.resource_version)
        self._changed(operation)
