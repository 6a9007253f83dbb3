"""Creation of a server's components for a store: context, watch cache, authorizer, and reactions to changes."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from kcm.runtime.apiserver.access.authorizer import Authorizer
from kcm.runtime.apiserver.access.token_authenticator import AcceptedTokens, TokenAuthenticator
from kcm.runtime.apiserver.bootstrap.namespaces import create_first_namespaces
from kcm.runtime.apiserver.bootstrap.policy import node_rules
from kcm.runtime.apiserver.bootstrap.service_addresses import ServiceAddresses
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.custom_resources import CustomResources
from kcm.runtime.apiserver.core.expiry import Expiry
from kcm.runtime.apiserver.core.identifiers import Identifiers
from kcm.runtime.apiserver.core.remote_api_services import RemoteApiServices
from kcm.runtime.apiserver.core.settings import ApiSettings, new_registry
from kcm.runtime.apiserver.core.suspended_requests import OutsideAccess
from kcm.runtime.apiserver.registry.users import EVERYTHING, Authorize
from kcm.runtime.apiserver.server.transactions import Transactions
from kcm.runtime.apiserver.stand_ins.garbage import GarbageCollector
from kcm.runtime.apiserver.stand_ins.namespace_cleanup import NamespaceCleanup
from kcm.runtime.apiserver.storage.state import State
from kcm.runtime.apiserver.storage.store import Store
from kcm.runtime.apiserver.storage.watches import WatchCache
from kcm.runtime.scheduling.clock import WallClock


class OpenedStore(Struct, frozen=True, kw_only=True):
    """Components of a server that were created for its store."""

    cluster: Cluster
    cache: WatchCache
    transactions: Transactions
    outside_access: OutsideAccess  # access of object conversions to webhook results
    expiry: Expiry  # deletes Events after their time to live
    authenticator: TokenAuthenticator
    authorizer: Authorizer | None  # None: every request is allowed


def open_store(
    store: Store,
    clock: WallClock,
    settings: ApiSettings,
    *,
    tokens: AcceptedTokens,
    identifiers: Identifiers,
    authorize: Authorize,
) -> OpenedStore:
    """Create the components of a server for a store, and the initial namespaces. For the parameters see ApiServer."""
    cache = WatchCache(store.revision())
    state = State(store, cache.publish)
    authorizer = Authorizer(state, node_rules=node_rules()) if settings.role_based else None
    authenticator = TokenAuthenticator(state, clock.now, tokens)
    cluster = Cluster(
        state=state,
        registry=new_registry(settings),
        clock=clock,
        uid=identifiers.uid,
        suffix=identifiers.suffix,
        authorize=authorize if authorizer is None else authorizer.authorize,
        authenticate=authenticator.review,
        resolver=EVERYTHING if authorizer is None else authorizer,
        tokens=tokens.accounts,
        settings=settings,
    )
    transactions, outside_access, expiry = Transactions(state), OutsideAccess(), Expiry(cluster)
    remote_api_services = RemoteApiServices(cluster, settings.stand_ins)
    transactions.reactions += (CustomResources(cluster, cache, outside_access), expiry, remote_api_services)
    if authorizer is not None:
        transactions.reactions.append(authorizer)
    if settings.keep_ip_addresses:
        transactions.reactions.append(ServiceAddresses(cluster))
    if settings.collect_garbage:
        transactions.reactions.append(GarbageCollector(cluster))
    if settings.empty_namespaces:
        transactions.reactions.append(NamespaceCleanup(cluster))
    transactions.run(partial(create_first_namespaces, cluster))
    transactions.run(remote_api_services.reconcile)
    return OpenedStore(
        cluster=cluster,
        cache=cache,
        transactions=transactions,
        outside_access=outside_access,
        expiry=expiry,
        authenticator=authenticator,
        authorizer=authorizer,
    )
