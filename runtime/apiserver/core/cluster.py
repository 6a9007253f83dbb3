"""Server context that every verb works with, and the parsed request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Protocol

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Key, Object, decode_object, encode_object, is_deleting, make_key
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.access.account_tokens import AccountTokens
from kcm.runtime.apiserver.core.questions import Outside, unanswered
from kcm.runtime.apiserver.core.settings import ApiSettings
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.warnings import Warnings
from kcm.runtime.apiserver.registry.definitions import Registry, ResourceDefinition
from kcm.runtime.apiserver.registry.routing import ResourceRoute
from kcm.runtime.apiserver.registry.users import (
    EVERYTHING,
    AccessControl,
    Authenticate,
    Authorize,
    RuleResolver,
    User,
    allow_all,
    known_to_nobody,
)
from kcm.runtime.apiserver.schema.kind_checks import Shapes, built_in_shapes
from kcm.runtime.apiserver.storage.sizes import TooLargeError
from kcm.runtime.apiserver.storage.state import State, StoredObject
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.client.api import Request
from kcm.runtime.scheduling.clock import WallClock


class Patience(Protocol):
    """Remaining allowance of the current attempt at a request, in units of cost."""

    left: float


class Reaction(Protocol):
    """Derives further changes from a change, in the same commit."""

    def react(self, change: StoreChange) -> None:
        """Stage the derived changes, and update the own state."""

    def undo(self, change: StoreChange) -> None:
        """Undo a change that is rolled back; called with the newest change first.

        The server's state is already the one before all of them. `react` may not have been called for this change, or
        may
        have raised.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Server context of a request: state, registry, clock and settings."""

    state: State
    registry: Registry
    shapes: Shapes = field(default_factory=built_in_shapes)
    clock: WallClock
    uid: Callable[[], str]
    suffix: Callable[[], str]  # five random characters for a generateName
    authorize: Authorize = allow_all
    authenticate: Authenticate = known_to_nobody
    resolver: RuleResolver = EVERYTHING  # rules that roles and bindings give to a user
    tokens: AccountTokens | None = None  # issuer of service account tokens; None issues none
    settings: ApiSettings
    outside: Outside = unanswered  # calls webhooks, see suspended_requests.py
    # Allowance for long computations, see long_computations.py; None: they are carried out at once.
    patience: Patience | None = None

    @property
    def service_ranges(self) -> tuple[str, ...]:
        """See registry.strategy.Allocating."""
        return self.settings.service_ranges

    def timestamp(self) -> str:
        """Return the current time as in objects: RFC 3339, whole seconds."""
        return format_time(self.clock.now())

    def access(self, name: str = "") -> AccessControl:
        """Return the access control for a request. name: name of the object in its path."""
        return AccessControl(self.authenticate, self.authorize, self.resolver, name)

    def plural_of(self, api_version: str, kind: str) -> str:
        """See registry.strategy.Granting."""
        found = self.registry.of_kind(api_version, kind)
        return "" if found is None else found.plural

    def objects(self, storage: str) -> Iterator[Object]:
        """All objects of a resource, decoded, in the order of their keys."""
        return self.state.objects(storage)

    def is_deleting(self, record: StoredObject) -> bool:
        return b'"deletionTimestamp"' in record.raw and is_deleting(decode_object(record.raw))

    def record(self, definition: ResourceDefinition, key: Key) -> StoredObject:
        """Return the stored object. Raises StatusError (404)."""
        record = self.state.get(definition.storage, key)
        if record is None:
            raise status_errors.not_found(definition.group, definition.plural, key.rpartition("/")[2])
        return record


class Remarks:
    """Warnings for the client, and annotations for the request's entry in the audit log."""

    __slots__ = ("annotations", "warnings")

    def __init__(self) -> None:
        self.warnings = Warnings()
        self.annotations: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class RoutedRequest:
    """Request with its route. remarks: None if the request only reads."""

    route: ResourceRoute
    request: Request
    user: User
    remarks: Remarks | None = None

    def warn(self, text: str) -> None:
        """Add a warning, which the client gets even if the request fails."""
        if self.remarks is not None:
            self.remarks.warnings.add(text)

    def warn_all(self, texts: Iterable[str]) -> None:
        """Take as many as a response can show; the rest of an iterator is not computed."""
        if self.remarks is not None:
            for text in texts:
                if self.remarks.warnings.is_full:
                    return
                self.remarks.warnings.add(text)

    def annotate(self, key: str, text: str) -> None:
        """In the audit log. The first of a key counts."""
        if self.remarks is not None:
            self.remarks.annotations.setdefault(key, text)

    @property
    def definition(self) -> ResourceDefinition:
        return self.route.definition

    @property
    def agent(self) -> str:
        """The manager of fields that the user agent stands for; "" where that is not known."""
        return self.request.agent

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    @property
    def key(self) -> Key:
        return make_key(self.route.namespace, self.route.name)

    @property
    def dry_run(self) -> bool:
        return self.request.query.get("dryRun") == "All"


def read_stored(definition: ResourceDefinition, raw: bytes) -> Object:
    """A stored object, decoded, in the form that verbs work with."""
    obj = decode_object(raw)
    return obj if definition.decode is None else definition.decode([obj])[0]


def served(definition: ResourceDefinition, raw: bytes) -> bytes:
    """A stored object as this version of the resource shows it."""
    if definition.shows_what_is_stored:
        return raw
    return encode_object(definition.shown(decode_object(raw)))


def all_served(definition: ResourceDefinition, raws: list[bytes]) -> list[bytes]:
    """Return the served form of many stored objects at once."""
    if definition.decode is None:
        return [served(definition, raw) for raw in raws]
    return [encode_object(obj) for obj in definition.decode([decode_object(raw) for raw in raws])]


def stored_form(definition: ResourceDefinition, obj: Object) -> Object:
    """The form that verbs work with. obj: what is applied may have no metadata; converters find one."""
    if definition.to_storage is None:
        return obj
    return definition.to_storage(obj if isinstance(obj.get("metadata"), dict) else {**obj, "metadata": {}})


def encoded(definition: ResourceDefinition, obj: Object) -> Object:
    """Return the stored form of an object in the version that verbs work with."""
    return obj if definition.encode is None else definition.encode(obj)


def put_object(
    cluster: Cluster, definition: ResourceDefinition, key: Key, stored: Object, *, keeps_managers: bool
) -> bytes:
    """Store an object; return its bytes. stored: see `encoded`.

    An object that is too large is stored without its managedFields, unless keeps_managers, as upstream does it.
    Raises TooLargeError.
    """
    try:
        return cluster.state.put(definition.storage, key, stored)
    except TooLargeError:
        if keeps_managers or stored["metadata"].pop("managedFields", None) is None:
            raise
        return cluster.state.put(definition.storage, key, stored)
