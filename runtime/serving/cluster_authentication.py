"""Authentication settings that the cluster publishes: authorities of clients, and authorities and headers of proxies.

kube-apiserver writes them to the ConfigMap kube-system/extension-apiserver-authentication. They are read at the start
and followed by a watch.
Source: kubernetes v1.36 apiserver/pkg: server/options/authentication_dynamic_request_header.go,
server/dynamiccertificates/configmap_cafile_content.go, authentication/request/headerrequest.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import orjson

from kcm.runtime.client.api import Request, Response
from kcm.runtime.client.transport import HttpTransport
from kcm.runtime.serving.authentication import ProxyHeaders

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

NAMESPACE, NAME = "kube-system", "extension-apiserver-authentication"
ROLE = "extension-apiserver-authentication-reader"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
TIMEOUT = 10.0  # seconds for one request
TRIES = 10  # requests at the start to a server that does not respond
WATCH = 300  # seconds for which the server keeps a watch open
SILENCE = WATCH + 30.0  # seconds without an end after which the connection of a watch counts as broken
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds before the next list, after the first failure and at most


class LookupFailedError(Exception):
    """The settings cannot be read. The text contains the reason."""


class PublishedSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Content of the ConfigMap."""

    # PEM bundles of authorities; "" for none.
    clients: str = ""
    proxies: str = ""
    headers: ProxyHeaders = ProxyHeaders(names=(), username=(), group=())


class ClusterAuthentication:
    """Reads the settings, and follows them on a thread of its own. settings: the current ones."""

    def __init__(self, transport: HttpTransport, *, client: str, log: FilteringBoundLogger) -> None:
        """Prepare the lookup. client: name of the sender, as Transport has it."""
        self._transport, self._client, self._log = transport, client, log
        self.settings = PublishedSettings()
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()  # of the watch; None at its end
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="cluster-authentication", daemon=True)

    def authorities(self) -> tuple[str, str]:
        """Return the current PEM bundles of the authorities of clients and of proxies."""
        return self.settings.clients, self.settings.proxies

    def look_up(self, wait: Callable[[float], bool]) -> None:
        """Read the settings once. A missing ConfigMap is no error. Raises LookupFailedError.

        wait: waits some seconds for a server that does not respond, and returns True to give up.
        """
        for _ in range(TRIES):
            response = self._get({"fieldSelector": f"metadata.name={NAME}"})
            if response.status or wait(FIRST_PAUSE):
                break
        if response.status == 403:
            self._log.warning(
                f"Unable to get configmap/{NAME} in {NAMESPACE}. Usually fixed by 'kubectl create rolebinding "
                f"-n {NAMESPACE} ROLEBINDING_NAME --role={ROLE} --serviceaccount=YOUR_NS:YOUR_SA'"
            )
        self._take_list(response)

    def follow(self) -> None:
        """Start to follow the settings."""
        self._thread.start()

    def close(self) -> None:
        """Stop following. Call this before the transport is closed."""
        self._stopping.set()
        self._lines.put(None)

    def _get(self, query: Mapping[str, str]) -> Response:
        request = Request(method="GET", path=PATH, query=query)
        return self._transport.request(request, client=self._client, timeout=TIMEOUT)

    def _take_list(self, response: Response) -> str:
        """Use the listed ConfigMap, and return the list's resourceVersion. Raises LookupFailedError."""
        if response.status != 200:
            raise LookupFailedError(response.problem)
        try:
            found = orjson.loads(response.body)
            items, version = found.get("items") or [], str(found["metadata"]["resourceVersion"])
            self._take(items[0] if items else None)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LookupFailedError(f"malformed ConfigMap {NAMESPACE}/{NAME}: {error}") from error
        return version

    def _take(self, config_map: Mapping[str, Any] | None) -> None:
        """Use a ConfigMap; None if it does not exist. Raises ValueError, TypeError or AttributeError."""
        settings = PublishedSettings() if config_map is None else settings_of(config_map.get("data") or {})
        if settings != self.settings:
            self.settings = settings
            self._log.info("authentication settings of the cluster read", configmap=f"{NAMESPACE}/{NAME}")

    def _follow(self) -> None:
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                version = self._take_list(self._get({"fieldSelector": f"metadata.name={NAME}"}))
                self._watch(version)
            except LookupFailedError as error:
                self._log.warning("authentication settings of the cluster not read", error=str(error))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                pause = FIRST_PAUSE
            self._stopping.wait(pause)

    def _watch(self, version: str) -> None:
        """Use the changes of the ConfigMap until the watch ends."""
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lines = lines
        query = {
            "fieldSelector": f"metadata.name={NAME}",
            "watch": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH),
        }
        stream = self._transport.watch(
            Request(method="GET", path=PATH, query=query),
            client=self._client,
            on_lines=lines.put,
            on_end=lambda _response: lines.put(None),
        )
        try:
            while not self._stopping.is_set() and (chunk := lines.get(timeout=SILENCE)) is not None:
                for line in filter(None, chunk.splitlines()):
                    if not self._take_event(line):
                        return
        except queue.Empty:  # the next list shows whether the server is there
            self._log.info("watch of the authentication settings is silent, listing them again")
        finally:
            stream.cancel()

    def _take_event(self, line: bytes) -> bool:
        """Use one event of the watch. Return False if the ConfigMap must be listed again."""
        try:
            event = orjson.loads(line)
            if event["type"] == "ERROR":
                return False
            self._take(None if event["type"] == "DELETED" else event["object"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # The previous settings stay in use.
            self._log.warning(f"malformed ConfigMap {NAMESPACE}/{NAME}", error=str(error))
        return True


def settings_of(given: object) -> PublishedSettings:
    """Parse the data of the ConfigMap. Raises ValueError that names a malformed key."""
    try:
        data = msgspec.convert(given, dict[str, str])
    except msgspec.ValidationError as error:
        raise ValueError(f"data: {error}") from error
    return PublishedSettings(
        clients=data.get("client-ca-file", ""),
        proxies=data.get("requestheader-client-ca-file", ""),
        headers=ProxyHeaders(
            names=_texts(data, "requestheader-allowed-names"),
            username=_texts(data, "requestheader-username-headers"),
            group=_texts(data, "requestheader-group-headers"),
            uid=_texts(data, "requestheader-uid-headers"),
            extra=_texts(data, "requestheader-extra-headers-prefix"),
        ),
    )


def _texts(data: Mapping[str, str], key: str) -> tuple[str, ...]:
    """Decode a JSON array of strings; a missing or empty value is an empty array."""
    if not data.get(key):
        return ()
    try:
        return msgspec.json.decode(data[key], type=tuple[str, ...])
    except (msgspec.DecodeError, TypeError) as error:
        raise ValueError(f"{key}: {error}") from error
