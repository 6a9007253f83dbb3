"""Server context and parsed request, which the handlers of all verbs receive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct, field

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
from kcm.runtime.apiserver.schema.kind_checks import TypeChecks, built_in_type_checks
from kcm.runtime.apiserver.storage.sizes import TooLargeError
from kcm.runtime.apiserver.storage.state import State, StoredObject
from kcm.runtime.apiserver.storage.store import StoreChange
from kcm.runtime.client.api import Request
from kcm.runtime.scheduling.clock import WallClock


class RemainingAllowance(Protocol):
    """Amount of computation that the current attempt to handle a request may still use.

    See long_computations.py.
    """

    left: float  # units of cost, about microseconds


class Reaction(Protocol):
    """Component that derives further changes from a change of a stored object, in the same commit."""

    def react(self, change: StoreChange) -> None:
        """Add the derived changes to the commit, and update the component's own state."""

    def undo(self, change: StoreChange) -> None:
        """Revert the component's own state after a change that is rolled back.

        Called for each change of a commit, the newest first, when the stored objects are already as before the commit.
        `react` may not have been called for this change, or may have raised.
        """


class Cluster(Struct, frozen=True, kw_only=True):
    """Server context that the handlers of all requests share: stored objects, registry, clock and settings."""

    state: State
    registry: Registry
    type_checks: TypeChecks = field(default_factory=built_in_type_checks)
    clock: WallClock
    uid: Callable[[], str]
    suffix: Callable[[], str]  # returns five random characters for a generateName
    authorize: Authorize = allow_all
    authenticate: Authenticate = known_to_nobody
    resolver: RuleResolver = EVERYTHING  # returns the rules that roles and bindings grant to a user
    tokens: AccountTokens | None = None  # issuer of service account tokens; None: no tokens are issued
    settings: ApiSettings
    outside: Outside = unanswered  # returns responses of webhooks, see suspended_requests.py
    # Allowance for long computations, see long_computations.py; None: they are carried out at once.
    allowance: RemainingAllowance | None = None

    @property
    def service_ranges(self) -> tuple[str, ...]:
        """CIDRs from which cluster IPs are allocated. Required by the protocol registry.strategy.Allocating."""
        return self.settings.service_ranges

    def timestamp(self) -> str:
        """Return the current time in the format of objects: RFC 3339, in whole seconds."""
        return format_time(self.clock.now())

    def access(self, name: str = "") -> AccessControl:
        """Return the object with which handlers check permissions for a request. name: object name in its path."""
        return AccessControl(self.authenticate, self.authorize, self.resolver, name)

    def plural_of(self, api_version: str, kind: str) -> str:
        """Return the plural name of a kind, "" if it is unknown. Required by registry.strategy.Granting."""
        found = self.registry.of_kind(api_version, kind)
        return "" if found is None else found.plural

    def objects(self, storage: str) -> Iterator[Object]:
        """Yield all objects of a resource, decoded, in the order of their keys. storage: ResourceDefinition.storage."""
        return self.state.objects(storage)

    def has(self, storage: str, key: Key) -> bool:
        """Report whether an object is stored. Required by the protocol registry.strategy.Allocating."""
        return self.state.get(storage, key) is not None

    def is_deleting(self, record: StoredObject) -> bool:
        return b'"deletionTimestamp"' in record.raw and is_deleting(decode_object(record.raw))

    def record(self, definition: ResourceDefinition, key: Key) -> StoredObject:
        """Return the stored object with a key. Raises StatusError (404) if it does not exist."""
        record = self.state.get(definition.storage, key)
        if record is None:
            raise status_errors.not_found(definition.group, definition.plural, key.rpartition("/")[2])
        return record


class Remarks:
    """Collector of a request's warnings for the client, and of annotations for its entry in the audit log."""

    __slots__ = ("annotations", "warnings")

    def __init__(self) -> None:
        self.warnings = Warnings()
        self.annotations: dict[str, str] = {}


class RoutedRequest(Struct, frozen=True):
    """Request for a resource, with the resource that its path addresses (`route`) and its user."""

    route: ResourceRoute
    request: Request
    user: User
    remarks: Remarks | None = None  # None if the request only reads

    def warn(self, text: str) -> None:
        """Add a warning to the response. The client receives it even if the request fails."""
        if self.remarks is not None:
            self.remarks.warnings.add(text)

    def warn_all(self, texts: Iterable[str]) -> None:
        """Add warnings until the response can show no more. The rest of an iterator is then not evaluated."""
        if self.remarks is not None:
            for text in texts:
                if self.remarks.warnings.is_full:
                    return
                self.remarks.warnings.add(text)

    def annotate(self, key: str, text: str) -> None:
        """Add an annotation to the request's entry in the audit log. The first value of a key is kept."""
        if self.remarks is not None:
            self.remarks.annotations.setdefault(key, text)

    @property
    def definition(self) -> ResourceDefinition:
        return self.route.definition

    @property
    def agent(self) -> str:
        """User-Agent of the client up to the first slash; "" if unknown. The default name of the field manager."""
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
    """Decode a stored object into the form that the handlers of verbs process.

    They process a built-in object in the form in which it is stored, and a custom object in the version of the
    definition.
    """
    obj = decode_object(raw)
    return obj if definition.decode is None else definition.decode([obj])[0]


def served(definition: ResourceDefinition, raw: bytes) -> bytes:
    """Return the JSON of a stored object in the version of the definition. raw: JSON of the object as stored."""
    if definition.shows_what_is_stored:
        return raw
    return encode_object(definition.shown(decode_object(raw)))


def all_served(definition: ResourceDefinition, raws: list[bytes]) -> list[bytes]:
    """Return the JSON of stored objects in the version of the definition. A webhook converts them in one call."""
    if definition.decode is None:
        return [served(definition, raw) for raw in raws]
    return [encode_object(obj) for obj in definition.decode([decode_object(raw) for raw in raws])]


def stored_form(definition: ResourceDefinition, obj: Object) -> Object:
    """Convert an object in the version of the definition to the form that the handlers of verbs process.

    See `read_stored`. obj: may lack metadata, as the body of an apply can; the conversion then adds it.
    """
    if definition.to_storage is None:
        return obj
    return definition.to_storage(obj if isinstance(obj.get("metadata"), dict) else {**obj, "metadata": {}})


def encoded(definition: ResourceDefinition, obj: Object) -> Object:
    """Convert an object from the form that the handlers of verbs process to the form in which it is stored."""
    return obj if definition.encode is None else definition.encode(obj)


def put_object(
    cluster: Cluster, definition: ResourceDefinition, key: Key, stored: Object, *, keeps_managers: bool
) -> bytes:
    """Store an object and return its JSON. stored: the object in its stored form, see `encoded`.

    As upstream, an object that is too large is stored without its managedFields, unless keeps_managers is set.
    Raises TooLargeError.
    """
    try:
        return cluster.state.put(definition.storage, key, stored)
    except TooLargeError:
        if keeps_managers or stored["metadata"].pop("managedFields", None) is None:
            raise
        return cluster.state.put(definition.storage, key, stored)
