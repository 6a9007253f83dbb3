"""Questions: which object is to be explained."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from msgspec import Struct

from kcm.actors.explanation.kinds import resource_named
from kcm.protocols.objects import Key, make_key
from kcm.protocols.resources import Resource

LONGEST = 253  # characters of a name or a kind
_KIND = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_FORBIDDEN = re.compile(r"[/%\s\x00-\x1f]")  # no name of an object contains these


class QuestionError(ValueError):
    """The question is malformed. The text names the field and the reason."""


class UnknownKindError(QuestionError, LookupError):
    """The API server serves no such kind."""


class Question(Struct, frozen=True, kw_only=True):
    """Object to be explained.

    kind: as kubectl accepts it: a kind, a plural or a short name, also with its group.
    namespace: "" for a cluster-scoped object.
    """

    kind: str
    namespace: str
    name: str


def question_of(*, kind: str, namespace: str, name: str) -> Question:
    """Return a question. Raises QuestionError."""
    if not kind or len(kind) > LONGEST or not _KIND.fullmatch(kind):
        raise QuestionError(f"kind: a kind, such as deployment or deployments.apps, not {kind!r:.80}")
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise QuestionError(f"namespace: the name of a namespace, not {namespace!r:.80}")
    if not name or len(name) > LONGEST or _FORBIDDEN.search(name) or name in (".", ".."):
        raise QuestionError(f"name: the name of an object, not {name!r:.80}")
    return Question(kind=kind, namespace=namespace, name=name)


def check_choice(cluster: str, clusters: Sequence[str]) -> None:
    """Check the choice of a cluster. Raises QuestionError.

    clusters: those that the manager works on; () for one, which has no name.
    """
    if cluster and not clusters:
        raise QuestionError(f"cluster: the manager works on one cluster, which has no name, not {cluster!r:.80}")
    if clusters and cluster not in clusters:
        known = ", ".join(sorted(clusters))
        given = f", not {cluster!r:.80}" if cluster else ", and none is named"
        raise QuestionError(f"cluster: the manager works on {known}; name the one of the object{given}")


def place_of(question: Question, find: Callable[[str, str], Resource | None]) -> tuple[Resource, Key]:
    """Return the resource and the key of the object. Raises QuestionError.

    find: returns the resource of a group and a kind that are not built in; it may raise.
    """
    resource = resource_named(question.kind)
    if resource is None:
        kind, _, group = question.kind.partition(".")
        resource = find(group, kind)
    if resource is None:
        raise UnknownKindError(f"kind: the API server serves no kind {question.kind!r}")
    if not resource.namespaced:
        return resource, question.name
    if not question.namespace:
        raise QuestionError(f"namespace: {resource.name} are in namespaces, so one is needed")
    return resource, make_key(question.namespace, question.name)


def words_of(words: list[str], *, namespace: str) -> Question:
    """Return the question of a command line: KIND NAME, KIND NAMESPACE/NAME or KIND/NAME. Raises QuestionError.

    namespace: of the object, unless the words contain one.
    """
    match words:
        case [single] if "/" in single:
            kind, _, name = single.partition("/")
        case [kind, name]:
            pass
        case _:
            raise QuestionError("name one object: KIND NAME, KIND NAMESPACE/NAME or KIND/NAME")
    if "/" in name:
        namespace, _, name = name.partition("/")
    return question_of(kind=kind, namespace=namespace, name=name)
