"""API server without HTTP: a function from requests to responses, on one thread and a given clock.

    server = ApiServer(store=MemoryStore(), clock=clock)
    response = server.handle(request)
    server.when_durable(lambda: send(response))

A write is applied in memory immediately and made durable by the store later, so that many writes share one commit.
Send a response only after `when_durable` has called back, also that of a read: it may contain a write that is not
durable yet. With the in-memory store the callback comes immediately. Watches deliver only durable changes.

Call all methods on one thread; callbacks run there too. No method blocks.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypeVar

import orjson

from kcm.protocols.admission_plugins import WITHOUT_CONTROLLERS
from kcm.protocols.messages.commands import PatchType
from kcm.protocols.objects import Object, name_of, namespace_of, uid_of
from kcm.protocols.resources import SECRETS, resource_path
from kcm.runtime.apiserver.access.account_tokens import AccountTokens
from kcm.runtime.apiserver.access.authorizer import Authorizer
from kcm.runtime.apiserver.access.legacy_tokens import LAST_USED, LegacyTokens, Use
from kcm.runtime.apiserver.access.token_authenticator import TokenAuthenticator
from kcm.runtime.apiserver.bootstrap.api_services import CustomApiServices
from kcm.runtime.apiserver.bootstrap.flow_control import FlowControl
from kcm.runtime.apiserver.bootstrap.kubernetes_service import KubernetesService
from kcm.runtime.apiserver.bootstrap.legacy_token_tracking import note_tracking
from kcm.runtime.apiserver.bootstrap.metrics import remove_metrics_api_service
from kcm.runtime.apiserver.bootstrap.namespaces import create_first_namespaces
from kcm.runtime.apiserver.bootstrap.policy import node_rules
from kcm.runtime.apiserver.bootstrap.roles import reconcile_roles
from kcm.runtime.apiserver.bootstrap.service_addresses import ServiceAddresses
from kcm.runtime.apiserver.bootstrap.system_objects import create_system_objects
from kcm.runtime.apiserver.core.cluster import SERVICE_RANGES, Call, Cluster, Now, Reaction, Remarks
from kcm.runtime.apiserver.core.custom_resources import CustomResources
from kcm.runtime.apiserver.core.expiry import Expiry
from kcm.runtime.apiserver.core.long_work import AT_ONCE, Allowance
from kcm.runtime.apiserver.core.questions import (
    Answer,
    Ask,
    Outside,
    Question,
    Unanswered,
    Work,
    nobody_there,
    unanswered,
)
from kcm.runtime.apiserver.core.remote_api_services import RemoteApiServices
from kcm.runtime.apiserver.core.suspended_requests import Asking, AskLater, Suspended, in_background
from kcm.runtime.apiserver.core.uids import RandomUids
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.kinds.pod_spec.scheduling_groups import with_scheduling_groups
from kcm.runtime.apiserver.registry.admission_settings import BY_DEFAULT, AdmissionSettings
from kcm.runtime.apiserver.registry.definitions import VERBS, Registry, ResourceDefinition
from kcm.runtime.apiserver.registry.derived import COMPONENTS, Derived
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.routing import Route, route
from kcm.runtime.apiserver.registry.users import (
    ADMIN,
    ALLOWED,
    EVERYTHING,
    NOBODY,
    Authenticated,
    Authorize,
    Decision,
    User,
    allow_all,
)
from kcm.runtime.apiserver.schema.kind_checks import built_in_shapes
from kcm.runtime.apiserver.stand_ins.garbage import GarbageCollector
from kcm.runtime.apiserver.stand_ins.namespace_cleanup import NamespaceCleanup
from kcm.runtime.apiserver.storage.sizes import TooLargeError
from kcm.runtime.apiserver.storage.state import State
from kcm.runtime.apiserver.storage.store import Store
from kcm.runtime.apiserver.storage.watches import Watch, WatchCache
from kcm.runtime.apiserver.verbs.component_statuses import (
    Components,
    lease_problem,
    no_components,
    read_component_statuses,
)
from kcm.runtime.apiserver.verbs.create import create
from kcm.runtime.apiserver.verbs.delete import delete, delete_collection
from kcm.runtime.apiserver.verbs.derived import get_derived, list_derived
from kcm.runtime.apiserver.verbs.eviction import evict
from kcm.runtime.apiserver.verbs.patch import patch
from kcm.runtime.apiserver.verbs.pod_binding import bind, of_the_pod
from kcm.runtime.apiserver.verbs.read import get, list_
from kcm.runtime.apiserver.verbs.scale import get_scale, patch_scale, update_scale
from kcm.runtime.apiserver.verbs.token import create_token
from kcm.runtime.apiserver.verbs.update import update
from kcm.runtime.apiserver.verbs.watch import watch
from kcm.runtime.client.api import Request, Response

T = TypeVar("T")

SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"


def random_suffix() -> str:
    """Draw five characters without vowels, as upstream's names.SimpleNameGenerator."""
    return "".join(random.choices(SUFFIX_CHARACTERS, k=5))


Handler = Callable[[Cluster, Call], Response]
# By verb and subresource.
_HANDLERS: Mapping[tuple[str, str], Handler] = {
    ("create", ""): create,
    ("get", ""): get,
    ("update", ""): update,
    ("patch", ""): patch,
    ("delete", ""): delete,
    **{("get", subresource): get for subresource in ("status", "approval", "resize", "ephemeralcontainers")},
    **{("update", subresource): update for subresource in ("status", "approval", "resize", "ephemeralcontainers")},
    **{("patch", subresource): patch for subresource in ("status", "approval", "resize", "ephemeralcontainers")},
    ("update", "finalize"): update,
    ("get", "scale"): get_scale,
    ("update", "scale"): update_scale,
    ("patch", "scale"): patch_scale,
    ("create", "binding"): bind,
    ("create", "eviction"): evict,
    ("create", "token"): create_token,
}
_VERBS_OF_COLLECTIONS = ("create", "list", "deletecollection")


class ApiServer:
    def __init__(
        self,
        *,
        store: Store,
        clock: Now,
        resources: Iterable[ResourceDefinition] = BUILT_IN,
        stand_ins: Iterable[ResourceDefinition] = (),
        uid: Callable[[], str] | None = None,
        suffix: Callable[[], str] = random_suffix,
        collect_garbage: bool = True,
        empty_namespaces: bool = True,
        authorize: Authorize = allow_all,
        role_based: bool = False,
        tokens: AccountTokens | None = None,
        legacy_tokens: LegacyTokens | None = None,
        users: Mapping[str, User] | None = None,
        node_key: bytes = b"",
        service_ranges: tuple[str, ...] = SERVICE_RANGES,
        plugins: frozenset[str] = WITHOUT_CONTROLLERS,
        admission: AdmissionSettings = BY_DEFAULT,
        ask: Ask = nobody_there,
        record_managers: bool = True,
    ) -> None:
        """Open the store, and create the initial namespaces.

        stand_ins: definitions that are served while an APIService names a Service with hollow pods for them.
        uid: source of metadata.uid, random by default.
        suffix: source of the five characters of generateName, random by default.
        collect_garbage: do the work of the garbage collector, see stand_ins/.
        empty_namespaces: do the work of the namespace controller, see stand_ins/.
        role_based: authorize by roles and bindings, and nodes by the pods bound to them.
        authorize: authorizes access reviews and admission if not role_based.
        tokens: issues tokens of service accounts; None disables them.
        legacy_tokens: verifies tokens of Secrets; None rejects them.
        users: users by static token.
        node_key: key of the tokens of nodes; empty rejects them.
        service_ranges: CIDRs of cluster IPs, one for each IP family, the default family first.
        plugins: enabled admission plugins; by default upstream's, except those that depend on controllers.
        admission: configuration of admission plugins.
        ask: answers questions to webhooks immediately, in `handle`; see core/questions.py.
        record_managers: record managedFields of objects that were never applied, too.
        """
        self.registry = Registry(with_scheduling_groups(resources))
        self._cache = WatchCache(store.revision())
        self._state = State(store, self._cache.publish)
        self._authorizer = Authorizer(self._state, node_rules=node_rules()) if role_based else None
        self._token_authenticator = TokenAuthenticator(
            self._state,
            clock.now,
            account_tokens=tokens,
            legacy_tokens=legacy_tokens,
            users=users or {},
            node_key=node_key,
        )
        self._cluster = Cluster(
            state=self._state,
            registry=self.registry,
            shapes=built_in_shapes(),
            clock=clock,
            uid=RandomUids() if uid is None else uid,
            suffix=suffix,
            authorize=authorize if self._authorizer is None else self._authorizer.authorize,
            authenticate=self._token_authenticator.review,
            resolver=EVERYTHING if self._authorizer is None else self._authorizer,
            tokens=tokens,
            service_ranges=service_ranges,
            plugins=plugins,
            admission=admission,
            records_managers=record_managers,
        )
        self._ask = ask
        self._asking = Asking()
        self._ask_later: AskLater = self._ask_all_at_once
        self._watches = 0
        self._handlers: dict[tuple[str, str], Handler] = {
            **_HANDLERS,
            ("list", ""): lambda cluster, call: list_(cluster, self._cache, call),
            ("deletecollection", ""): lambda cluster, call: delete_collection(cluster, self._cache, call),
        }
        self.components: Components = no_components  # source of ComponentStatuses
        self._expiry = Expiry(self._cluster)
        self._reactions: list[Reaction] = [
            CustomResources(self._cluster, self._cache, self._asking),
            self._expiry,
        ]
        remote_api_services = RemoteApiServices(self._cluster, stand_ins)
        self._reactions.append(remote_api_services)
        if self._authorizer is not None:
            self._reactions.append(self._authorizer)
        if collect_garbage:
            self._reactions.append(GarbageCollector(self._cluster))
        if empty_namespaces:
            self._reactions.append(NamespaceCleanup(self._cluster))
        self._kubernetes_service: KubernetesService | None = None
        self._flow_control: FlowControl | None = None
        self._transact(partial(create_first_namespaces, self._cluster))
        self._transact(remote_api_services.reconcile)

    @property
    def revision(self) -> int:
        """The newest resourceVersion."""
        return self._state.revision

    def leave_garbage(self) -> None:
        """Stop collecting garbage, because the controller for it runs."""
        self._reactions = [kept for kept in self._reactions if not isinstance(kept, GarbageCollector)]

    def leave_namespaces(self) -> None:
        """Stop emptying namespaces, because the controller for it runs."""
        self._reactions = [kept for kept in self._reactions if not isinstance(kept, NamespaceCleanup)]

    def object_counts(self) -> Iterator[tuple[str, str, int]]:
        """Count the stored objects: (group, resource, count)."""
        for storage, collection in self._state.collections():
            resource, _, group = storage.partition(".")
            yield group, resource, len(collection)

    def public_keys(self) -> list[dict[str, str]]:
        """Return the JSON Web Keys that verify tokens of service accounts."""
        return [] if self._cluster.tokens is None else [self._cluster.tokens.public_key()]

    def reached_at(self, host: str, port: int) -> None:
        """Publish this IPv4 address as Service default/kubernetes, and create the objects of a served cluster."""
        self._kubernetes_service = KubernetesService(self._cluster, host=host, port=port)
        self._transact(self._kubernetes_service.reconcile)
        self._transact(partial(note_tracking, self._cluster))
        self._transact(partial(remove_metrics_api_service, self._cluster))
        self._transact(partial(create_system_objects, self._cluster))
        flow_control = self._flow_control = FlowControl(self._cluster)
        own = (CustomApiServices(self._cluster), ServiceAddresses(self._cluster), flow_control)
        self._reactions = [kept for kept in self._reactions if not isinstance(kept, tuple(map(type, own)))] + [*own]
        for reaction in own:
            self._transact(reaction.reconcile)

    def suspends_long_work(self) -> None:
        """Suspend requests whose expressions take long: from now on `begin` returns them as questions."""
        self._cluster = replace(self._cluster, patience=Allowance())

    @contextmanager
    def acting_for(self, outside: Outside) -> Iterator[None]:
        """Use `outside` for the conversions within this context. Not within a request."""
        before, self._asking.outside = self._asking.outside, outside
        try:
            yield
        finally:
            self._asking.outside = before

    def asks_for_watches(self, ask: AskLater) -> None:
        """Set the function that makes the calls that the delivery of watch events depends on."""
        self._ask_later = ask

    def _ask_at_once(self, question: Question) -> Answer:
        return question.carried_out() if isinstance(question, Work) else self._ask(question)

    def _ask_all_at_once(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        then(list(map(self._ask_at_once, questions)))

    def ensure_roles(self) -> None:
        """Create or complete upstream's bootstrap roles and bindings."""
        self._transact(partial(reconcile_roles, self._cluster))

    def user_of(self, token: str) -> User | None:
        """Return the user of a token, None for an unknown, expired or revoked one.

        The use of a Secret's token is recorded in the Secret. Not within a request.
        """
        found = self._token_authenticator.authenticate(token, ())
        if isinstance(found, Authenticated):
            return found.user
        use = self._token_authenticator.use_of(token)
        if use is not None and use.day:
            self._note_use(use)
        return None if use is None else use.user

    def _note_use(self, use: Use) -> None:
        """Record in the Secret that its token was used; ignored if the Secret was replaced meanwhile."""
        patch = {"metadata": {"uid": uid_of(use.secret), "labels": {LAST_USED: use.day}}}
        path = resource_path(SECRETS.id, namespace_of(use.secret), name_of(use.secret))
        self.handle(Request(method="PATCH", path=path, body=orjson.dumps(patch), content_type=str(PatchType.MERGE)))

    def decide(self, user: User, info: RequestInfo) -> Decision:
        """Authorize a request. `begin`, `handle` and `watch` do not authorize."""
        return ALLOWED if self._authorizer is None else self._authorizer.decide(user, info)

    def handle(self, request: Request, *, user: User = ADMIN) -> Response:
        """Carry out any request except a watch, and return its response, which may be a refusal.

        Any other exception is raised after the changes of the request are undone. If the deletion of a collection is
        refused in the middle, the earlier deletions remain, as upstream.
        """
        outcome = self.begin(request, user=user)
        while isinstance(outcome, Suspended):
            outcome = outcome.resume(map(self._ask_at_once, outcome.questions))
        return outcome

    def begin(self, request: Request, *, user: User = ADMIN, info: RequestInfo | None = None) -> Response | Suspended:
        """Carry out a request, up to its questions to webhooks: the caller answers them and resumes it.

        info: the value that the request was authorized by; None if it was not parsed yet.
        """
        info = info or RequestInfo.of(request.method, request.path, request.query)
        try:
            return self._transact(partial(self._respond, self._cluster, request, info, user))
        except TooLargeError as err:  # caught here, so that staged changes are undone
            return err.response()
        except Unanswered:
            return self._suspended(request, info, user)

    def _suspended(self, request: Request, info: RequestInfo, user: User) -> Response | Suspended:
        # From here on, uids, suffixes and the time are drawn once for all attempts.
        def attempt(cluster: Cluster) -> Response:
            try:
                return self._transact(partial(self._respond, cluster, request, info, user))
            except TooLargeError as err:
                return err.response()

        return Suspended(self._cluster, attempt).resume(())

    def watch(
        self,
        request: Request,
        *,
        info: RequestInfo | None = None,
        deliver: Callable[[bytes], None],
        end: Callable[[Response], None],
        deliver_first: Callable[[Iterator[bytes]], None] | None = None,
    ) -> Watch | Response:
        """Start a watch; return a Response if it is refused. Bookmarks and timeouts happen in `tick`.

        info: the value that the request was authorized by; None if it was not parsed yet.
        deliver: called with one or more whole lines, possibly before this returns.
        deliver_first: called with an iterator of the initial events, to read at its own pace; without it, `deliver`
            is called with all of them.
        end: called once, when the server ends the watch.
        """
        try:
            found = route(self.registry, info or RequestInfo.of(request.method, request.path, request.query))
            if "watch" not in found.definition.verbs or found.name:
                raise status_errors.method_not_allowed()
            call = Call(found, request, NOBODY)
            self._watches += 1
            self._asking.outside = unanswered
            return watch(
                self._cluster,
                self._cache,
                call,
                number=self._watches,
                deliver=deliver,
                end=end,
                deliver_first=deliver_first,
                convert_later=partial(self._convert_later, found.definition) if found.definition.asks_outside else None,
            )
        except StatusError as err:
            return err.response()

    def _convert_later(
        self,
        definition: ResourceDefinition,
        stored: list[Object],
        then: Callable[[list[Object]], None],
        failed: Callable[[StatusError], None],
    ) -> None:
        decode = definition.decode
        if decode is None:
            then(stored)
        else:
            in_background(self._asking, self._ask_later, partial(decode, stored), then, failed)

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call back once all requests handled so far are durable and delivered to watches, which may be immediately."""
        self._state.when_durable(callback)

    def take_back(self, because: StatusError) -> None:
        """Undo all changes that are not durable, because the store has no room. Not within a request.

        Their `when_durable` callbacks are never called: refuse these requests, or carry them out again. Watches that
        have not begun end with this error.
        """
        for change in self._state.take_back():
            for reaction in self._reactions:
                reaction.undo(change)
        for pending in list(self._cache.watches()):
            if not pending.has_begun:
                pending.fail(because)

    def tick(self, now: float) -> None:
        """Run the jobs that are due: bookmarks and timeouts of watches, expiry of objects. now: Unix seconds.

        A job that fails is undone, and the others run. Raises an ExceptionGroup of the failures afterwards.
        """
        errors: list[Exception] = []
        for job in self._jobs(now):
            try:
                self._transact(job)
            except Exception as err:
                errors.append(err)
        if errors:
            raise ExceptionGroup("jobs that were due have failed", errors)

    def _jobs(self, now: float) -> Iterator[Callable[[], None]]:
        if self._expiry.is_due(now):
            yield partial(self._expiry.tick, now)
        if self._kubernetes_service is not None and self._kubernetes_service.is_due(now):
            yield partial(self._kubernetes_service.tick, now)
        if self._flow_control is not None and self._flow_control.is_due(now):
            yield partial(self._flow_control.tick, now)
        for due in self._cache.due(now):
            yield partial(due.tick, now)
        if self._cache.is_age_due(now):
            yield partial(self._cache.age, now)

    def next_tick(self) -> float | None:
        """Return when the next watch needs a tick, in Unix seconds; None without watches."""
        soonest = self._cache.next_tick()
        return None if soonest == math.inf else soonest

    def lease_problem(self, name: str) -> str:
        """Return why a Lease of kube-system is not held, "" if it is."""
        return lease_problem(self._cluster, name)

    def route(self, info: RequestInfo) -> Route | None:
        """Return where a request is served, None if nowhere."""
        try:
            return route(self.registry, info)
        except StatusError:
            return None

    def _transact(self, act: Callable[[], T]) -> T:
        """Commit the changes of `act` with the reactions to them; undo them if anything is raised."""
        try:
            result = act()
            if self._state.staged:
                self._react()
        except BaseException:
            for change in self._state.roll_back():
                for reaction in self._reactions:
                    reaction.undo(change)
            raise
        if self._state.staged:
            self._state.commit()
        return result

    def _respond(self, cluster: Cluster, request: Request, info: RequestInfo, user: User) -> Response:
        self._asking.outside = cluster.outside
        deprecation, remarks = "", None
        if request.method != "GET":
            remarks = Remarks()
            if cluster.patience is not None:
                cluster.patience.left = AT_ONCE
        try:
            call = Call(route(self.registry, info), request, user, remarks)
            if remarks is not None and request.method == "HEAD":  # authorized as a get, but not served
                raise status_errors.method_not_allowed()
            if call.definition.deprecation:
                call.warn(call.definition.deprecation)
                deprecation = call.definition.deprecation
            response = self._carry_out(cluster, info, call)
        except TooLargeError:
            raise
        except StatusError as err:
            response = err.response()
        if remarks is None:
            return response.remarked((deprecation,), None) if deprecation else response
        if not remarks.warnings and not remarks.annotations:
            return response
        return response.remarked(remarks.warnings.texts, remarks.annotations)

    def _react(self) -> None:
        """Run the reactions to the staged changes, and to the changes that reactions make."""
        done = 0
        while done < len(self._state.staged):
            change = self._state.staged[done]
            for reaction in self._reactions:
                reaction.react(change)
            done += 1

    def _carry_out(self, cluster: Cluster, info: RequestInfo, call: Call) -> Response:
        found = call.route
        definition, subresource = found.definition, found.subresource
        verb = "list" if info.verb == "watch" else info.verb
        if definition.namespaced and not found.namespace and verb != "list":
            raise status_errors.method_not_allowed()  # over all namespaces there are only lists
        handler = self._handlers.get((verb, subresource))
        if handler is None or bool(found.name) == (not subresource and verb in _VERBS_OF_COLLECTIONS):
            raise status_errors.method_not_allowed()
        if not subresource:
            if definition.verbs is not VERBS and verb not in definition.verbs:  # only read, or only reviewed
                raise status_errors.method_not_allowed()
            if definition.derived is not None and call.request.method == "GET":
                return self._read_derived(cluster, call, definition.derived)
            if definition.name == "bindings":
                return bind(cluster, of_the_pod(cluster, call))
        return handler(cluster, call)

    def _read_derived(self, cluster: Cluster, call: Call, derived: Derived) -> Response:
        if derived is COMPONENTS:
            return read_component_statuses(call, self.components)
        return get_derived(cluster, call, derived) if call.route.name else list_derived(cluster, call, derived)
