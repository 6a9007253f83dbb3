"""Explanations by a running system: with its transport, its tables and its decisions."""

from __future__ import annotations

from kcm.actors.app.shared_parts import Assembly
from kcm.actors.explanation.api_reader import ApiReader, Ask
from kcm.actors.explanation.cause import Explanation
from kcm.actors.explanation.evidence import Evidence, ReadError
from kcm.actors.explanation.explain import explain
from kcm.actors.explanation.manager_state import ManagerView
from kcm.actors.explanation.questions import UnknownKindError, place_of, question_of
from kcm.actors.reconciliation.actor_names import INFORMERS
from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.transport import request_and_wait

WITHIN = 8.0  # seconds of all reads of one explanation


def explained(
    assembly: Assembly, view: ManagerView, *, kind: str, namespace: str, name: str, cluster: str
) -> Explanation:
    """Return why an object is as it is. Blocks its thread at most WITHIN seconds.

    Raises UnknownKindError, which is a LookupError, for an unknown kind, and QuestionError, which is a ValueError.
    """
    question = question_of(kind=kind, namespace=namespace, name=name)
    clock = assembly.clock
    deadline = clock.monotonic() + WITHIN
    reader = ApiReader(_ask(assembly, cluster), left=lambda: deadline - clock.monotonic())
    try:
        resource, key = place_of(question, reader.find)
    except ReadError as err:
        raise UnknownKindError(f"kind: {kind!r} is not a kind of Kubernetes, and discovery failed: {err}") from err
    return explain(resource, key, Evidence(reader, now=clock.now(), manager=view, cluster=cluster))


def _ask(assembly: Assembly, cluster: str) -> Ask:
    transport = assembly.transport_of(cluster)

    def ask(request: Request) -> Response:
        # As the informers: their account may list all resources.
        return request_and_wait(transport, request, client=INFORMERS, timeout=request.timeout or WITHIN)

    return ask
