"""ValidatingAdmissionPolicy status controller: type-checks the expressions of policies, and reports warnings.

The validations of a policy are compiled against the OpenAPI schemas of the kinds that its resource rules match. Errors,
such as a reference to an undefined field, become warnings in the status. They do not change what the policy does.

Input: ValidatingAdmissionPolicies, discovery, OpenAPI v3 documents. Output: status.observedGeneration and
status.typeChecking, by server-side apply. Key: the name of a policy.

A policy is checked once for each generation. A later change of a schema does not repeat the check, as upstream. The
compilation runs in a thread, because it may take seconds for a long policy.

Source: kubernetes v1.36 pkg/controller/validatingadmissionpolicystatus/controller.go; apiserver
pkg/admission/plugin/policy/validating/typechecking.go; apimachinery pkg/api/meta/restmapper.go. Differences:
- Schemas of built-in kinds come from the API server too. Upstream has those of its own release compiled in.
- If the discovery of a group fails, or the server fails to return a schema (5xx, or no response), the check is retried.
  Upstream skips the kind, and never checks this generation of the policy again.
- The check waits up to PUBLISHED_WITHIN seconds for the schema of a served kind. The API server publishes the schema of
  a CustomResourceDefinition a second after the kind. Upstream skips the kind.
- The uid of the policy is a precondition of the write, so that the result is not written to a new policy of that name.
- The names of struct types in warnings end in the position of the kind, upstream's in the current nanosecond.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from kcm.actors.controllers.apimachinery.namespace.served import survey_resources
from kcm.actors.controllers.shared.served_kinds import KINDS_ONLY, ServedKinds
from kcm.actors.options import ControllerOptions, Options
from kcm.actors.reconciliation import Because, Interest, Reconciliation, Retry, Step, Watch, apply, call, itself, must
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Queue
from kcm.protocols.discovery.documents import GroupVersion
from kcm.protocols.discovery.survey import ROOTS
from kcm.protocols.integers import counted
from kcm.protocols.messages.commands import Fetch
from kcm.protocols.messages.discovery import ServedResource
from kcm.protocols.messages.outcomes import Done, Forbidden, Invalid, NotFound
from kcm.protocols.messages.watches import EventType
from kcm.protocols.objects import Key, Object, metadata, uid_of
from kcm.protocols.resources import VALIDATING_ADMISSION_POLICIES
from kcm.runtime.flags.declaration import flag
from kcm.runtime.scheduling.clock import Clock
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MANAGER = "validatingadmissionpolicy-status"
MOST_KINDS = 10  # kinds of one resource rule that are checked
CHECK_WITHIN = 600.0  # seconds; an expression of a megabyte takes about a second for each kind
FAILED_DISCOVERY_RETRY = 10.0  # seconds
PUBLISHED_WITHIN, SCHEMA_RETRY = 10.0, 1.0  # seconds
SEEN = Interest(types=(EventType.ADDED, EventType.MODIFIED))


class ValidatingAdmissionPolicyStatusOptions(ControllerOptions, frozen=True, kw_only=True):
    configz_block = "ValidatingAdmissionPolicyStatusController"

    concurrent_syncs: int = flag(
        5,
        "Number of ValidatingAdmissionPolicies that are synced concurrently.",
        name="concurrent-validating-admission-policy-status-syncs",
        config="ConcurrentPolicySyncs",
    )


def _workers(options: Options) -> int:
    return options[ValidatingAdmissionPolicyStatusOptions].concurrent_syncs


def _check_workers(options: Options) -> Iterator[str]:
    if _workers(options) < 1:
        yield f"must be positive, got {_workers(options)}"


class MatchedKind(NamedTuple):
    """A kind that a policy matches, in the order of upstream's results."""

    group: str
    version: str
    kind: str

    @property
    def document(self) -> str:
        """Return the path of the OpenAPI v3 document that contains its schema."""
        root = f"apis/{self.group}" if self.group else "api"
        return f"/openapi/v3/{root}/{self.version}"


class MatchedKinds(NamedTuple):
    kinds: tuple[MatchedKind, ...]
    missing: tuple[GroupVersion, ...] = ()  # group versions of the rules in which a resource is not served


def kinds_for(group: str, version: str, resource: str, served: Iterable[ServedResource]) -> list[MatchedKind]:
    """Return the kinds whose plural or singular resource name this is.

    An empty group matches every group, not only the core group, as in upstream's RESTMapper.

    Source: DefaultRESTMapper.KindsFor.
    """
    name = resource.lower()
    found = (
        MatchedKind(entry.group, entry.version, entry.kind)
        for entry in served
        if entry.version == version and group in ("", entry.group) and name in (entry.plural, entry.kind.lower())
    )
    return list(dict.fromkeys(found))


def matched_kinds(policy: Mapping[str, Any], served: Sequence[ServedResource]) -> MatchedKinds:
    """Return the kinds that the resource rules of a policy match.

    A rule with a wildcard for the group or version is skipped, as are wildcards and subresources among the resources.
    Once a rule has MOST_KINDS kinds, further kinds and rules are ignored.

    Source: typesToCheck.
    """
    found: set[MatchedKind] = set()
    missing: dict[GroupVersion, None] = {}
    constraints = (policy.get("spec") or {}).get("matchConstraints") or {}
    for rule in constraints.get("resourceRules") or ():
        count = 0
        for group, version, resource in _combinations(rule):
            kinds = kinds_for(group, version, resource, served)
            if not kinds:
                missing[GroupVersion(group, version)] = None
            for kind in kinds:
                found.add(kind)
                count += 1
                if count == MOST_KINDS:
                    return MatchedKinds(tuple(sorted(found)), tuple(missing))
    return MatchedKinds(tuple(sorted(found)), tuple(missing))


def _combinations(rule: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    if any("*" in name for name in (*groups, *versions)):
        return
    resources = [name for name in rule.get("resources") or () if "*" not in name and "/" not in name]
    for group in sorted(groups):
        for version in sorted(versions):
            for resource in sorted(resources):
                yield group, version, resource


def params_kind(policy: Mapping[str, Any]) -> MatchedKind | None:
    """Return the kind of the policy's parameters; None if it has none. Source: paramsGVK."""
    kind = (policy.get("spec") or {}).get("paramKind") or {}
    api_version = kind.get("apiVersion") or ""
    if api_version.count("/") > 1:
        return None
    group, _, version = api_version.rpartition("/")
    found = MatchedKind(group, version, kind.get("kind") or "")
    return found if any(found) else None


def policy_warnings(
    policy: Mapping[str, Any], kinds: Sequence[MatchedKind], documents: Mapping[str, bytes]
) -> tuple[list[tuple[str, str]], list[str]]:
    """Type-check a policy. Returns fieldRef and text of each warning, and the kinds without a schema.

    kinds: the kinds that the policy matches; those without a schema are ignored.
    documents: OpenAPI v3 documents by path.

    Source: TypeChecker.Check, CreateContext.
    """
    # A heavy library, which a cluster without policies does not need.
    from kcm.runtime.cel.policy_types import CheckedKind, declared_kind, expression_warnings

    parsed = {path: _parsed(body) for path, body in documents.items()}
    declared, missing = [], []
    for place, kind in enumerate(kinds):
        found = declared_kind(parsed.get(kind.document, {}), CheckedKind(*kind), f"{kind.kind}{place}")
        if found is not None:
            declared.append(found)
        else:
            missing.append(str(CheckedKind(*kind)))
    params, found = params_kind(policy), None
    if params is not None:
        found = declared_kind(parsed.get(params.document, {}), CheckedKind(*params), f"{params.kind}{len(kinds)}")
    warnings = expression_warnings(
        policy.get("spec") or {},
        declared,
        None if found is None else found.declaration,
        has_params=params is not None,
    )
    return [(warning.field_ref, warning.warning) for warning in warnings], missing


def _parsed(body: bytes) -> Mapping[str, Any]:
    """Return an OpenAPI document; a malformed document contains no schemas."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}


def needs_check(policy: Mapping[str, Any]) -> bool:
    """Report whether this generation of the policy was not checked yet."""
    observed = (policy.get("status") or {}).get("observedGeneration") or 0
    return bool((metadata(policy).get("generation") or 0) > observed)


def checked_status(policy: Mapping[str, Any], warnings: Iterable[Sequence[str]]) -> Object:
    """Return the status to apply."""
    entries = [{"fieldRef": field, "warning": text} for field, text in warnings]
    checking = {"expressionWarnings": entries} if entries else {}
    return {"observedGeneration": metadata(policy).get("generation") or 0, "typeChecking": checking}


class PolicyStatus:
    """Reconciler of the type checks of policies. Key: name of the policy."""

    def __init__(self, *, tables: Tables, clock: Clock, log: FilteringBoundLogger) -> None:
        self._policies, self._clock, self._log = tables[VALIDATING_ADMISSION_POLICIES], clock, log
        self._without_schema: dict[Key, float] = {}  # monotonic time since when a schema is missing, by policy
        self._served_kinds = ServedKinds()

    def on_message(self, message: Any) -> tuple[()]:
        return self._served_kinds.on_message(message)

    def reconcile(self, key: Key) -> Reconciliation:
        """Check a policy, and write the result. Source: reconcile."""
        policy = self._policies.get(key)
        if policy is None or not needs_check(policy):
            self._without_schema.pop(key, None)
            return None
        kinds = yield from self._kinds(policy)
        params = params_kind(policy)
        paths = dict.fromkeys(kind.document for kind in (*kinds, *([params] if params else ())))
        documents: dict[str, bytes] = {}
        for path in paths:
            outcome = yield from must(Fetch(path), but=(NotFound, Forbidden, Invalid))
            if isinstance(outcome, Done):
                documents[path] = outcome.body
            elif not isinstance(outcome, NotFound):
                self._log.info("internal error: schema resolution failure", v=2, path=path, error=outcome.message)
        check = partial(policy_warnings, policy, kinds, documents)
        warnings, missing = yield from call(check, timeout=CHECK_WITHIN)
        if missing:
            yield Because(f"the schemas of {', '.join(missing)} are not published: checks again until they are")
            now = self._clock.monotonic()
            if now < self._without_schema.setdefault(key, now) + PUBLISHED_WITHIN:
                raise Retry(f"the schemas of {missing} are not published", after=SCHEMA_RETRY)
        yield Because(
            f"type-checked its expressions for {counted(len(kinds), 'kind')}: {counted(len(warnings), 'warning')}"
        )
        body = {"metadata": {"name": key, "uid": uid_of(policy)}, "status": checked_status(policy, warnings)}
        command = apply(VALIDATING_ADMISSION_POLICIES, body, force=True, manager=MANAGER, subresource="status")
        outcome = yield from must(command, but=(NotFound,))
        if isinstance(outcome, Done):
            self._log.info("type-checked policy", v=2, policy=key, kinds=len(kinds), warnings=len(warnings))
        return None

    def _kinds(self, policy: Object) -> Step[tuple[MatchedKind, ...]]:
        """Return the kinds that the policy matches.

        If a resource is unknown, discovery is repeated once. It may have been defined just before the policy. Raises
        Retry if the resource may exist, but its group cannot be discovered now.
        """
        matched = matched_kinds(policy, self._served_kinds.served())
        if not matched.missing:
            return matched.kinds
        known = yield from survey_resources()
        matched = matched_kinds(policy, (*known.resources, *known.others))
        for group in (*(str(group) for group in matched.missing), *(ROOTS if matched.missing else ())):
            if group in known.stalled:
                raise Retry(f"{group} cannot be discovered: {known.stalled[group]}", after=FAILED_DISCOVERY_RETRY)
        return matched.kinds


def _build(context: ControllerContext) -> PolicyStatus:
    return PolicyStatus(tables=context.tables, clock=context.clock, log=context.log)


SPEC = ControllerSpec(
    name="validatingadmissionpolicy-status-controller",
    never_blocks=True,
    options=ValidatingAdmissionPolicyStatusOptions,
    checks=(_check_workers,),
    queues=(
        Queue(
            MANAGER,
            watches=(Watch(VALIDATING_ADMISSION_POLICIES, to=itself, interest=SEEN),),
            concurrency=_workers,
            terminal=(),
        ),
    ),
    discovers=KINDS_ONLY,
    build=_build,
)
