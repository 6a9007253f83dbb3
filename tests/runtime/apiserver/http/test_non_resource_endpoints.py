import base64
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from kcm.runtime.apiserver.access.account_tokens import AccountTokens
from kcm.runtime.apiserver.http.health import Health
from kcm.runtime.apiserver.kinds.built_in import BUILT_IN
from kcm.runtime.apiserver.schema.protobuf_encoder import ProtobufEncoder
from kcm.runtime.apiserver.storage.store import MemoryStore
from kcm.runtime.schema.api_types import built_in_types
from kcm.runtime.signing.tokens import SigningKey
from tests.runtime.apiserver.http.served import PODS, Served, run, serving

PROTOBUF, JSON = "application/vnd.kubernetes.protobuf", "application/json"
AGGREGATED = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"


@pytest.mark.parametrize("path", ["/api", "/apis", "/api/v1", "/apis/apps", "/apis/apps/v1"])
def test_discovery_is_available_as_protobuf(path: str) -> None:
    async def scenario(served: Served) -> None:
        plain = (await served.get(path)).json
        answer = await served.get(path, headers={"Accept": PROTOBUF})
        assert answer.headers["Content-Type"] == PROTOBUF
        assert answer.raw == ProtobufEncoder(built_in_types()).encode(plain)

    run(scenario)


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_matching_etag_of_aggregated_discovery_returns_not_modified(path: str) -> None:
    async def scenario(served: Served) -> None:
        for media_type in (JSON, PROTOBUF):
            type_ = f"{media_type};{AGGREGATED}"
            first = await served.get(path, headers={"Accept": type_})
            assert first.headers["Content-Type"] == type_
            assert (first.headers["Cache-Control"], first.headers["Vary"]) == ("public", "Accept")
            etag = first.headers["Etag"]
            again = await served.get(path, headers={"Accept": type_, "If-None-Match": etag})
            assert (again.status, again.raw, again.headers["Etag"]) == (304, b"", etag)
            other = await served.get(path, headers={"Accept": type_, "If-None-Match": '"other"'})
            assert (other.status, other.raw) == (200, first.raw)

    run(scenario)


def test_removed_version_of_aggregated_discovery_is_rejected() -> None:
    async def scenario(served: Served) -> None:
        old = f"{JSON};g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
        assert (await served.get("/apis", headers={"Accept": old})).status == 406
        assert (await served.get("/apis", headers={"Accept": f"{old},{JSON}"})).json["kind"] == "APIGroupList"

    run(scenario)


def test_root_lists_paths_and_other_paths_are_not_found() -> None:
    async def scenario(served: Served) -> None:
        for path in ("/", "/index.html"):
            paths = (await served.get(path)).json["paths"]
            assert {"/api/v1", "/apis/apps/v1", "/readyz/shutdown", "/metrics", "/version"} <= {*paths}
            assert paths == sorted({*paths})
        for path in ("/nothing", "/apis/none", "/apis/none/v1", "/logs", "/debug/pprof/", "/openapi/v3/apis/none/v1"):
            answer = await served.get(path)
            assert (answer.status, answer.raw) == (404, b"404 page not found\n")

    run(scenario)


def test_openapi_document_with_its_hash_in_the_url_is_cacheable() -> None:
    async def scenario(served: Served) -> None:
        path = (await served.get("/openapi/v3")).json["paths"]["apis/apps/v1"]["serverRelativeURL"]
        named = await served.get(path)
        assert named.headers["Cache-Control"] == "public, immutable"
        assert "io.k8s.api.apps.v1.Deployment" in named.json["components"]["schemas"]
        etag = named.headers["Etag"]
        plain = await served.get("/openapi/v3/apis/apps/v1")
        assert (plain.headers["Etag"], plain.headers["Cache-Control"]) == (etag, "no-cache, private")
        known = await served.get("/openapi/v3/apis/apps/v1", headers={"If-None-Match": etag})
        assert (known.status, known.raw) == (304, b"")
        old = await served.get("/openapi/v3/apis/apps/v1?hash=old", allow_redirects=False)
        assert (old.status, old.headers["Location"]) == (301, path)

    run(scenario)


def decoded(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


@pytest.mark.parametrize(
    "key, algorithm",
    [(rsa.generate_private_key(65537, 2048), "RS256"), (ec.generate_private_key(ec.SECP521R1()), "ES512")],
    ids=["rsa", "curve"],
)
def test_token_verification_keys_are_public(key: Any, algorithm: str) -> None:
    import asyncio

    async def scenario() -> None:
        async with serving(MemoryStore(), accounts=AccountTokens(SigningKey(key))) as served:
            answer = await served.get(KEYS)
            assert answer.headers["Content-Type"] == "application/jwk-set+json"
            assert answer.headers["Cache-Control"] == "public, max-age=3600"
            (shown,) = answer.json["keys"]
            assert (shown["alg"], shown["use"]) == (algorithm, "sig")
            numbers = key.public_key().public_numbers()
            if algorithm == "RS256":
                assert (decoded(shown["n"]), decoded(shown["e"])) == (numbers.n, numbers.e)
            else:
                assert (shown["crv"], decoded(shown["x"]), decoded(shown["y"])) == ("P-521", numbers.x, numbers.y)
            found = (await served.get(CONFIGURATION)).json
            assert found["jwks_uri"] == served.url.replace("http:", "https:") + KEYS
            assert found["id_token_signing_alg_values_supported"] == [algorithm]

    asyncio.run(scenario())


def test_openid_pages_are_not_found_without_a_token_issuer() -> None:
    async def scenario(served: Served) -> None:
        assert {(await served.get(path)).status for path in (KEYS, CONFIGURATION)} == {404}

    run(scenario)


def test_health_checks_can_be_excluded() -> None:
    health = Health({"ping": lambda: "", "store": lambda: "it is full"})
    assert health.report("livez", exclude=["store"]) == (200, "ok")
    status, text = health.report("livez", exclude=["store", "a", "b"], verbose=True)
    assert (status, text.splitlines()) == (
        200,
        [
            "[+]ping ok",
            "[+]store excluded: ok",
            'warn: some health checks cannot be excluded: no matches for "a", "b"',
            "livez check passed",
        ],
    )
    status, text = health.report("livez", exclude=["ping"])
    assert (status, text.splitlines()[:2]) == (500, ["[+]ping excluded: ok", "[-]store failed: it is full"])

    async def scenario(served: Served) -> None:
        answer = await served.get("/readyz?verbose&exclude=ping&exclude=shutdown")
        assert answer.raw == b"[+]ping excluded: ok\n[+]store ok\n[+]shutdown excluded: ok\nreadyz check passed\n"

    run(scenario)


def test_requests_watches_and_objects_are_counted() -> None:
    labels = 'group="",version="v1",resource="pods",subresource=""'

    async def scenario(served: Served) -> None:
        async def lines() -> set[str]:
            return {*(await served.get("/metrics")).raw.decode().splitlines()}

        await served.create("a")
        await served.get(f"{PODS}/a")
        await served.get(f"{PODS}/none")
        await served.get(PODS)
        await served.get("/api/v1/namespaces/default/strange")
        in_namespace = f'{labels},scope="namespace",component="apiserver"'
        of_one = f'{labels},scope="resource",component="apiserver"'
        async with served.session.get(f"{served.url}/api/v1/pods?watch=true"):
            found = await lines()
            cluster = f'{labels},scope="cluster",component="apiserver"'
            assert f'apiserver_longrunning_requests{{verb="WATCH",{cluster}}} 1' in found
        assert {
            "# TYPE apiserver_request_total counter",
            f'apiserver_request_total{{verb="POST",dry_run="",{of_one},code="201"}} 1',
            f'apiserver_request_total{{verb="GET",dry_run="",{of_one},code="200"}} 1',
            f'apiserver_request_total{{verb="GET",dry_run="",{of_one},code="404"}} 1',
            f'apiserver_request_total{{verb="LIST",dry_run="",{in_namespace},code="200"}} 1',
            f'apiserver_request_duration_seconds_count{{verb="GET",dry_run="",{of_one}}} 2',
            f'apiserver_request_duration_seconds_bucket{{verb="GET",dry_run="",{of_one},le="+Inf"}} 2',
            'apiserver_resource_objects{group="",resource="pods"} 1',
        } <= found
        assert not any("strange" in line for line in found)  # otherwise clients could fill the memory

    run(scenario)


def test_storage_version_hash_of_events_is_the_same_in_both_groups() -> None:
    async def scenario(served: Served) -> None:
        versions = ["/apis/events.k8s.io/v1", "/api/v1"]
        documents = [(await served.get(path)).json["resources"] for path in versions]
        hashes = [
            resource.get("storageVersionHash")
            for found in documents
            for resource in found
            if resource["name"] == "events"
        ]
        assert hashes == ["r2yiGXH7wu8=", "r2yiGXH7wu8="]

    run(scenario, resources=BUILT_IN)
