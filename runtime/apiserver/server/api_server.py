"""API server without HTTP: executes requests against a store, on one thread and a given clock.

    server = ApiServer(store=MemoryStore(), clock=clock)
    response = server.handle(request)
    server.when_durable(lambda: send(response))

A write is applied in memory immediately, and made durable by the store later, so that many writes share one commit.
Send a response only when `when_durable` has called its callback. This applies to reads as well, because a response may
contain changes that are not durable yet. The in-memory store calls back immediately. Watches deliver only durable
changes.

Call all methods on one thread, which also runs the callbacks. No method blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from msgspec.structs import replace

from kcm.protocols.errors import clear_frames
from kcm.runtime.apiserver.access.token_authenticator import NO_TOKENS, AcceptedTokens
from kcm.runtime.apiserver.bootstrap.roles import reconcile_roles
from kcm.runtime.apiserver.bootstrap.served_cluster import REACTIONS, ServedCluster
from kcm.runtime.apiserver.core.cluster import Cluster, Remarks, RoutedRequest
from kcm.runtime.apiserver.core.identifiers import Identifiers, RandomUids
from kcm.runtime.apiserver.core.long_computations import AT_ONCE, Allowance
from kcm.runtime.apiserver.core.questions import CallWebhook, Unanswered, call_no_webhook, unanswered
from kcm.runtime.apiserver.core.settings import BY_DEFAULT, ApiSettings
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.presentation.presentation import Presentation
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.routing import NeedsContainerError, ResourceRoute, route
from kcm.runtime.apiserver.registry.users import ADMIN, ALLOWED, NOBODY, Authorize, Decision, User, allow_all
from kcm.runtime.apiserver.server.handlers import Handlers
from kcm.runtime.apiserver.server.opened_store import open_store
from kcm.runtime.apiserver.server.token_users import TokenUsers
from kcm.runtime.apiserver.server.webhook_calls import WebhookCalls
from kcm.runtime.apiserver.stand_ins.garbage import GarbageCollector
from kcm.runtime.apiserver.stand_ins.namespace_cleanup import NamespaceCleanup
from kcm.runtime.apiserver.storage.sizes import TooLargeError
from kcm.runtime.apiserver.storage.store import Store
from kcm.runtime.apiserver.storage.watches import CacheWatcher
from kcm.runtime.apiserver.verbs.component_statuses import Components, lease_problem
from kcm.runtime.apiserver.verbs.connect import admit_connect
from kcm.runtime.apiserver.verbs.watch import watch
from kcm.runtime.client.api import Request, Response
from kcm.runtime.scheduling.clock import WallClock


class ApiServer:
    def __init__(
        self,
        *,
        store: Store,
        clock: WallClock,
        settings: ApiSettings = BY_DEFAULT,
        tokens: AcceptedTokens = NO_TOKENS,
        identifiers: Identifiers | None = None,
        authorize: Authorize = allow_all,
        call_webhook: CallWebhook = call_no_webhook,
    ) -> None:
        """Open the store, and create the initial namespaces.

        tokens: bearer tokens that the server accepts
        identifiers: source of uids and of generated names; random by default
        authorize: authorizer for access reviews and admission; not used with settings.role_based
        call_webhook: calls a webhook synchronously, for `handle`; see core/questions.py
        """
        opened = open_store(
            store,
            clock,
            settings,
            tokens=tokens,
            identifiers=identifiers or Identifiers(RandomUids()),
            authorize=authorize,
        )
        self._cluster, self._cache, self._expiry = opened.cluster, opened.cache, opened.expiry
        self._state, self.registry = opened.cluster.state, opened.cluster.registry
        self._transactions, self._transact = opened.transactions, opened.transactions.run
        self._decide = None if opened.authorizer is None else opened.authorizer.decide
        self.user_of = TokenUsers(opened.authenticator, self.handle).user_of
        self._outside_access = opened.outside_access
        self.webhook_calls = WebhookCalls(opened.outside_access, call_webhook)
        self._handlers = Handlers(opened.cache)
        self._watches = 0
        self._served_cluster: ServedCluster | None = None

    @property
    def revision(self) -> int:
        """Newest resourceVersion, including changes that are not durable yet."""
        return self._state.revision

    def stop_garbage_collection(self) -> None:
        """Stop deleting objects without owners. Called when the garbage collector runs."""
        self._transactions.remove(GarbageCollector)

    def stop_namespace_cleanup(self) -> None:
        """Stop deleting the objects in deleted namespaces. Called when the namespace controller runs."""
        self._transactions.remove(NamespaceCleanup)

    def set_component_source(self, components: Components) -> None:
        """Set the function that reports the health of components, for ComponentStatuses."""
        self._handlers.components = components

    def object_counts(self) -> Iterator[tuple[str, str, int]]:
        """Yield the number of stored objects by resource: (group, resource, count)."""
        for storage, collection in self._state.collections():
            resource, _, group = storage.partition(".")
            yield group, resource, len(collection)

    def public_keys(self) -> list[dict[str, str]]:
        """Return the public keys that verify service account tokens, as JSON Web Keys."""
        return [] if self._cluster.tokens is None else self._cluster.tokens.public_keys()

    @property
    def issuer(self) -> str:
        """Issuer of service account tokens; "" if none are issued."""
        return "" if self._cluster.tokens is None else self._cluster.tokens.issuer

    def publish_address(self, host: str, port: int) -> None:
        """Publish the server's IPv4 address as Service default/kubernetes, and create the other bootstrap objects.

        Call when the server listens on this address. The objects are maintained from now on; see ServedCluster.
        """
        served_cluster = self._served_cluster = ServedCluster(self._cluster, host=host, port=port)
        for job in served_cluster.initial_jobs():
            self._transact(job)
        self._transactions.remove(*REACTIONS)
        self._transactions.reactions += served_cluster.reactions
        for job in served_cluster.initial_reconciliations():
            self._transact(job)

    def suspend_long_computations(self) -> None:
        """Suspend requests whose CEL expressions take long, from now on: `begin` then returns a Suspended."""
        self._cluster = replace(self._cluster, allowance=Allowance())

    def ensure_roles(self) -> None:
        """Create upstream's bootstrap RBAC roles and bindings, and add missing rules and subjects to existing ones."""
        self._transact(partial(reconcile_roles, self._cluster))

    def decide(self, user: User, info: RequestInfo) -> Decision:
        """Authorize a request. `begin`, `handle` and `watch` do not authorize, so call this before them."""
        return ALLOWED if self._decide is None else self._decide(user, info)

    def handle(self, request: Request, *, user: User = ADMIN) -> Response:
        """Execute a request other than a watch, and return its response. Webhooks are called synchronously.

        A StatusError becomes an error response; any other exception is raised after the changes of the request have
        been undone. If deleting a collection fails in the middle, the earlier deletions remain, as upstream.
        """
        return self.webhook_calls.finish(self.begin(request, user=user))

    def begin(self, request: Request, *, user: User = ADMIN, info: RequestInfo | None = None) -> Response | Suspended:
        """Execute a request other than a watch, until it needs a webhook, a delay or a long computation.

        Returns its response, or a suspended request, which the caller must resume with the results that it needs.

        info: the parsed request; None if it was not parsed yet
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
    ) -> CacheWatcher | Response:
        """Start a watch; return an error response if it cannot start. `tick` sends bookmarks and ends expired watches.

        info: the parsed request; None if it was not parsed yet
        deliver: called with one or more complete lines of events, possibly before this method returns
        deliver_first: called with an iterator over the lines of the initial events, which may be read later; without
          it, `deliver` is called with all of them
        end: called once, when the server ends the watch
        """
        try:
            found = route(self.registry, info or RequestInfo.of(request.method, request.path, request.query))
            if "watch" not in found.definition.verbs or found.name:
                raise status_errors.method_not_allowed()
            call = RoutedRequest(found, request, NOBODY)
            convert_later = partial(self.webhook_calls.convert_later, found.definition)
            self._watches += 1
            self._outside_access.outside = unanswered
            return watch(
                self._cluster,
                self._cache,
                call,
                number=self._watches,
                deliver=deliver,
                end=end,
                deliver_first=deliver_first,
                convert_later=convert_later if found.definition.asks_outside else None,
            )
        except StatusError as err:
            return err.response()

    def when_durable(self, callback: Callable[[], None]) -> None:
        """Call a function when all changes so far are durable and delivered to watches. This may be immediately."""
        self._state.when_durable(callback)

    def discard_pending(self, because: StatusError) -> None:
        """Undo all changes that are not durable, because the store is full. Must not be called within a request.

        Their `when_durable` callbacks are never called: the caller must fail these requests, or execute them again.
        Watches that have not begun end with the error `because`.
        """
        self._transactions.discard_pending()
        for pending in list(self._cache.watches()):
            if not pending.has_begun:
                pending.fail(because)

    def tick(self, now: float) -> None:
        """Run the periodic jobs that are due, such as bookmarks and timeouts of watches, and the expiry of Events.

        If a job fails, its changes are undone, and the other jobs still run. Raises an ExceptionGroup of the failures.

        now: current time in Unix seconds
        """
        errors: list[Exception] = []
        for job in self._jobs(now):
            try:
                self._transact(job)
            except Exception as err:
                errors.append(err)
        if errors:
            raise ExceptionGroup("periodic jobs failed", errors)

    def _jobs(self, now: float) -> Iterator[Callable[[], None]]:
        if self._expiry.is_due(now):
            yield partial(self._expiry.tick, now)
        if self._served_cluster is not None:
            yield from self._served_cluster.due_jobs(now)
        for due in self._cache.due(now):
            yield partial(due.tick, now)
        if self._cache.is_age_due(now):
            yield partial(self._cache.age, now)

    def next_tick(self) -> float | None:
        """Return the time of the next bookmark or timeout of a watch, in Unix seconds; None without watches."""
        soonest = self._cache.next_tick()
        return None if soonest == math.inf else soonest

    def lease_problem(self, name: str) -> str:
        """Return why a Lease in kube-system is not held; "" if it is held. name: name of the Lease."""
        return lease_problem(self._cluster, name)

    def presentation(self, *, build: str) -> Presentation:
        """Return the converters and documents for the HTTP side: object formats, discovery and OpenAPI.

        build: the server's gitVersion
        """
        return Presentation(self.registry, self.route, now=self._cluster.clock.now, build=build)

    def route(self, info: RequestInfo) -> ResourceRoute | None:
        """Return the resource, and the object or collection, that a request refers to; None if it is not served."""
        try:
            return route(self.registry, info)
        except StatusError:
            return None

    def _respond(self, cluster: Cluster, request: Request, info: RequestInfo, user: User) -> Response:
        self._outside_access.outside = cluster.outside
        deprecation, remarks = "", None
        if request.method != "GET":
            remarks = Remarks()
            if cluster.allowance is not None:
                cluster.allowance.left = AT_ONCE
        try:
            try:
                found = route(self.registry, info)
            except NeedsContainerError as err:
                admit_connect(cluster, info, RoutedRequest(err.route, request, user, remarks))
                raise
            call = RoutedRequest(found, request, user, remarks)
            if remarks is not None and request.method == "HEAD":  # authorized as a get, but not served
                raise status_errors.method_not_allowed()
            if call.definition.deprecation:
                call.warn(call.definition.deprecation)
                deprecation = call.definition.deprecation
            response = self._handlers.carry_out(cluster, info, call)
        except TooLargeError:
            raise
        except StatusError as err:
            response = err.response()
            clear_frames(err)
        if remarks is None:
            return response.remarked((deprecation,), None) if deprecation else response
        if not remarks.warnings and not remarks.annotations:
            return response
        return response.remarked(remarks.warnings.texts, remarks.annotations)
