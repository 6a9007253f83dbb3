"""Match conditions: expressions that have to be true for a webhook to be called.

Source: apiserver pkg/admission/plugin/webhook/matchconditions/matcher.go (v1.36).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kcm.protocols.bounded_cache import bounded_cache, total_size
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.admission.attributes import Attributes
from kcm.runtime.apiserver.admission.expressions import authorizer_of, request_of
from kcm.runtime.apiserver.admission.webhooks.matching import WebhookInvocation
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.long_computations import carried_out, key_of
from kcm.runtime.apiserver.errors import status_errors

if TYPE_CHECKING:
    from kcm.runtime.cel.admission import Expression


def conditions_match(
    cluster: Cluster, called: WebhookInvocation, attributes: Attributes, obj: Object | None, old: Object | None
) -> bool:
    """Report whether all match conditions of a webhook are true.

    obj, old: the objects in the API version that the webhook receives

    Raises StatusError (403) if a condition cannot be evaluated and the webhook does not ignore failures.
    """
    from kcm.runtime.cel.admission import CONDITIONS_BUDGET, FailedError, RequestEvaluation, conditions_hold, names

    webhook = called.webhook
    request = request_of(attributes, called.definition, called.kind)
    seen = names(new=obj, old=old, request=request, authorize=authorizer_of(cluster, attributes.call.user))
    texts = tuple(condition.get("expression") or "" for condition in webhook.conditions)

    def hold() -> bool:
        run = RequestEvaluation(seen, budget=CONDITIONS_BUDGET)
        return conditions_hold(_compiled(texts), run, ignores_failures=webhook.ignores_failures)

    try:
        return carried_out(cluster, partial(key_of, "conditions", texts, request, obj, old, webhook.place), hold)
    except FailedError as err:
        definition = attributes.definition
        raise status_errors.forbidden(definition.group, definition.plural, attributes.name, str(err)) from err


@bounded_cache(256, longest=64 * 1024, size=total_size)
def _compiled(texts: tuple[str, ...]) -> tuple[Expression, ...]:
    from kcm.runtime.cel.admission import BOOLEAN, Expression, admission_environment

    environment = admission_environment(params=False, authorizer=True)
    return tuple(Expression.compiled(text, environment, BOOLEAN) for text in texts)
