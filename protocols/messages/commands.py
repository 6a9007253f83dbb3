"""Commands, which a reconciler yields and the Dispatcher executes.

Each is one write to the API server, one live read, or one call of a function outside the actors (calls.py, cloud.py).

`key` is "namespace/name" ("name" for a cluster-scoped object), `resource` a Resource.id, `body` the JSON bytes of the
object or the patch. `user` is the user in whose name the command is sent, "" for the client's own. None means "not
given"; a grace period of 0 means now.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from kcm.protocols.messages.awaitables import Awaited
from kcm.protocols.messages.calls import Call
from kcm.protocols.messages.cloud import CLOUD_CALLS, CloudCall
from kcm.protocols.messages.message import Message
from kcm.protocols.messages.outcomes import Outcome
from kcm.protocols.objects import Key, decode_object, make_key, metadata
from kcm.protocols.resources import name_of_resource


class PatchType(StrEnum):
    """A patch's media type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Create(Message, Awaited[Outcome], frozen=True, tag=1):
    """POST body to the collection in namespace ("" for a cluster-scoped resource).

    name: of the parent object if subresource is set (pods/binding, serviceaccounts/token), else "".
    """

    resource: str
    namespace: str
    body: bytes
    name: str = ""
    subresource: str = ""
    user: str = ""


class Update(Message, Awaited[Outcome], frozen=True, tag=2):
    """PUT body. Fails with Conflict if the resourceVersion in the body is not the stored one."""

    resource: str
    key: str
    body: bytes
    subresource: str = ""


class Patch(Message, Awaited[Outcome], frozen=True, tag=3):
    """PATCH an object.

    force: an APPLY takes over fields of other managers.
    field_manager: of an APPLY; "" is the client's name.
    """

    resource: str
    key: str
    body: bytes
    patch_type: str = PatchType.STRATEGIC
    subresource: str = ""
    field_manager: str = ""
    force: bool = False
    user: str = ""


class Delete(Message, Awaited[Outcome], frozen=True, tag=4):
    """DELETE one object.

    uid, resource_version: preconditions.
    propagation: Background, Foreground or Orphan.
    depends_on: the Resource.ids whose tables the decision depends on and which must be fresh, or "id key" for one
        object of a table; None for all resources in the controller's spec. Checked before the command is submitted.
    """

    resource: str
    key: str
    uid: str | None = None
    resource_version: str | None = None
    grace_seconds: int | None = None
    propagation: str | None = None
    depends_on: tuple[str, ...] | None = None
    user: str = ""


class DeleteCollection(Message, Awaited[Outcome], frozen=True, tag=5):
    """DELETE the objects of a namespace ("" = cluster-scoped) that match the selectors.

    depends_on: as in Delete.
    limit: maximum number of objects; 0 is no limit.
    continue_from: as in List; only the objects that follow are deleted.
    """

    resource: str
    namespace: str
    label_selector: str = ""
    field_selector: str = ""
    propagation: str | None = None
    depends_on: tuple[str, ...] | None = None
    limit: int = 0
    continue_from: str = ""


class Get(Message, Awaited[Outcome], frozen=True, tag=6):
    """GET an object from the server, for the few decisions that must not depend on a cache. Done.body is the object.

    as_informer: LIST this object instead, with the informers' API client. With --use-service-account-credentials few
    controllers may GET the objects that they read from tables; upstream's bootstrap roles allow the informers' client
    to list all resources.
    """

    resource: str
    key: str
    subresource: str = ""
    as_informer: bool = False


class List(Message, Awaited[Outcome], frozen=True, tag=7):
    """LIST a namespace on the server ("" = all namespaces). Done.body is the list object.

    metadata_only: request only the metadata of each object, if the server supports it.
    limit: maximum number of objects; 0 is no limit.
    continue_from: metadata.continue of an earlier list, for the objects that follow; "" lists from the first object.
    """

    resource: str
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False
    limit: int = 0
    continue_from: str = ""


class Fetch(Message, Awaited[Outcome], frozen=True, tag=9):
    """GET a discovery or metrics document from the server. Done.body is the document."""

    resource: ClassVar[str] = ""
    path: str  # of the URL
    accept: str = "application/json"  # media types for the header Accept
    query: tuple[tuple[str, str], ...] = ()  # (name, value) pairs


Command = Create | Update | Patch | Delete | DeleteCollection | Get | List | Fetch | Call | CloudCall
COMMANDS: tuple[type[Command], ...] = (
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    Get,
    List,
    Fetch,
    Call,
    *CLOUD_CALLS,
)


def in_words(command: Command) -> str:
    """Return verb, resource and key for log lines: "update websites.example.com default/shop status"."""
    if isinstance(command, CLOUD_CALLS):
        return f"cloud call {type(command).__name__}"
    if isinstance(command, Call):
        return f"call {command.function} {command.key}".rstrip()
    if isinstance(command, Fetch):
        return f"get {command.path}"
    verb = "delete all" if isinstance(command, DeleteCollection) else type(command).__name__.lower()
    about = [verb, name_of_resource(command.resource), object_in_words(command), getattr(command, "subresource", "")]
    return " ".join(part for part in about if part)


def object_in_words(command: Command) -> Key:
    """Return the key of the command's object, its prefix if the server generates the name, or "in NAMESPACE"."""
    match command:
        case Create(_, namespace, body, name):
            try:
                meta = metadata(decode_object(body))
            except ValueError:
                meta = {}
            return make_key(namespace, name or str(meta.get("name") or meta.get("generateName") or ""))
        case Update(_, key) | Patch(_, key) | Delete(_, key) | Get(_, key):
            return key
        case List(_, namespace) | DeleteCollection(_, namespace):
            return f"in {namespace}" if namespace else ""
        case _:
            return ""


class Submit(Message, frozen=True, tag=8):
    """Execute these commands concurrently; a Settled is returned for each. Controller, recorder, elector → dispatcher.

    sender: name of the actor that receives the Settled messages.
    incarnation: of the sender; commands of a replaced incarnation are refused.
    client: the API client whose identity and rate limit are used ("replicaset-controller").
    ticket: the sender's number for this batch; a Settled contains it and the command's index.
    queue, key: what the controller is reconciling; for people who read a journal.
    """

    sender: str
    incarnation: int
    client: str
    ticket: int
    commands: tuple[Command, ...]
    queue: str = ""
    key: str = ""
