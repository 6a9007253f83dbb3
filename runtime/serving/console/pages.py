"""Routes of the console: its files, streams, questions and actions; and the key in the link to an embedded cluster."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kcm.runtime.serving.application import PageRequest, PageResponse, text_page
from kcm.runtime.serving.authentication import AUTHENTICATED, UnauthorizedError, bearer_token
from kcm.runtime.serving.authorization import ANONYMOUS, MASTERS, PageAttributes, PageAuthorizer, PageUser
from kcm.runtime.serving.console.assets import HEADER_LINES, PREFIX, Assets
from kcm.runtime.serving.console.streams import EVENT_STREAM, Streams, TooManyStreamsError, Topic

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

LIVE = "/console/live/"
API = "/console/api/"
ACCESS = "/console/api/access"
MOST_PATHS = 64  # paths of one question about access
LONGEST_QUERY = 2048  # characters
LARGEST_ACTION = 16 * 1024  # bytes of its body
CONSOLE_USER = PageUser(name="kcm:console", groups=(MASTERS, AUTHENTICATED))
JSON = "application/json; charset=utf-8"

Query = Mapping[str, list[str]]
MakeTopic = Callable[[Query], Topic]
Question = Callable[[Query], Any]
Action = Callable[[Any], Any]


class RefusedError(Exception):
    """An action cannot be carried out. The text contains the reason."""


class ConsoleParts(msgspec.Struct, frozen=True, kw_only=True):
    """Content and actions of a console, by name.

    Functions raise ValueError for invalid parameters, LookupError for missing objects.

    topics: create the content of a stream, /console/live/NAME.
    questions: return a value that can be encoded as JSON, GET /console/api/NAME. Called on a thread of their
        own, one at a time.
    actions: change something, POST /console/api/NAME. Receive the decoded body; may raise RefusedError.
    """

    topics: Mapping[str, MakeTopic] = {}
    questions: Mapping[str, Question] = {}
    actions: Mapping[str, Action] = {}


class Console:
    """Console of one program. Its files are served at once; it shows nothing until `set` is called.

    prefix: of all its paths.
    """

    prefix = PREFIX

    def __init__(self, *, log: FilteringBoundLogger) -> None:
        self._log = log
        self._parts = ConsoleParts()
        self._assets = Assets()
        self._asking = asyncio.Lock()
        self.streams = Streams(log=log)

    def set(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def close(self) -> None:
        """End the streams, whose pages would otherwise delay the end of the server. Any thread."""
        self.streams.close()

    def file(self, request: PageRequest) -> PageResponse | None:
        """Return a file of the console; None for other paths and methods, which require authorization."""
        path = request.path
        if request.method not in ("GET", "HEAD") or path.startswith((LIVE, API)):
            return None
        asset = self._assets.find(path)
        return None if asset is None else asset.response(request)

    async def respond(
        self, request: PageRequest, authorizer: PageAuthorizer, *, is_read_only: bool = False
    ) -> PageResponse:
        """Respond to an authorized request. is_read_only: refuse actions, as of clients that are not authenticated."""
        path, user = request.path, request.user or ANONYMOUS
        if len(request.target) > LONGEST_QUERY:
            return text_page("the query is too long\n", status=414)
        try:
            if path == ACCESS and request.method == "GET":
                return _json(await self._access(request.query, user, None if is_read_only else authorizer))
            if path.startswith(LIVE) and request.method == "GET":
                return self._stream(path.removeprefix(LIVE), request.query)
            if path.startswith(API) and is_read_only and request.method != "GET":
                return text_page("changes need the secure port\n", status=403)
            if path.startswith(API):
                return await self._call(path.removeprefix(API), request, user)
        except (ValueError, msgspec.ValidationError) as error:
            return text_page(f"{error}\n", status=400)
        except LookupError as error:
            return text_page(f"{error.args[0] if error.args else error}\n", status=404)
        except TooManyStreamsError as error:
            return text_page(f"{error}\n", status=429)
        except RefusedError as error:
            return text_page(f"{error}\n", status=409)
        except TimeoutError as error:
            return text_page(f"{error}\n", status=504)
        return text_page("404 page not found\n", status=404)

    async def _access(self, query: Query, user: PageUser, authorizer: PageAuthorizer | None) -> dict[str, Any]:
        """Return the user, what the console offers, and whether the user may POST to each of some paths.

        authorizer: None if nothing may be changed.
        """
        paths = query.get("path", [])
        if len(paths) > MOST_PATHS:
            raise ValueError(f"at most {MOST_PATHS} paths")
        decisions = dict.fromkeys(paths, False)
        if authorizer is not None:
            for path in paths:
                decision = await authorizer.decide(PageAttributes(user=user, verb="post", path=path))
                decisions[path] = decision.is_allowed
        parts = self._parts
        return {
            "user": user.name,
            "may": decisions,
            "topics": sorted(parts.topics),
            "questions": sorted(parts.questions),
            "actions": sorted(parts.actions),
        }

    def _stream(self, name: str, query: Query) -> PageResponse:
        make = self._parts.topics.get(name)
        if make is None:
            raise LookupError(f"nothing is shown under the name {name!r}")
        key = name + "?" + msgspec.json.encode(sorted(query.items())).decode()
        viewer = self.streams.open(key, lambda: make(query))
        return PageResponse(body=b"", content_type=EVENT_STREAM, lines=HEADER_LINES, stream=viewer)

    async def _call(self, name: str, request: PageRequest, user: PageUser) -> PageResponse:
        if request.method == "GET" and name in self._parts.questions:
            async with self._asking:
                return _json(await asyncio.to_thread(self._parts.questions[name], request.query))
        if name not in self._parts.actions:
            return text_page("404 page not found\n", status=404)
        if request.method != "POST":
            return text_page("this changes something, and takes POST\n", status=405)
        if not request.header("Content-Type").startswith("application/json"):
            return text_page("the body is JSON, with Content-Type: application/json\n", status=415)
        if len(request.body) > LARGEST_ACTION:
            return text_page("the body is too large\n", status=413)
        try:
            body = msgspec.json.decode(request.body or b"{}")
        except RecursionError:
            raise ValueError("the body is nested too deeply") from None
        if not isinstance(body, dict):
            raise ValueError("the body is a JSON object")
        self._log.info("console action", user=user.name, action=name, body=request.body.decode(errors="replace"))
        return _json(await asyncio.to_thread(self._parts.actions[name], body))


class LinkKey:
    """Authenticator of the link that run-kcm prints for its embedded cluster.

    The key gives all rights, as the kubeconfig of that cluster does. It is random and changes with every start. It
    travels in the fragment of the link, which browsers do not send. The page sends it as a bearer token. There is no
    cookie, so other pages in the same browser cannot use it.
    """

    def __init__(self) -> None:
        self.key = secrets.token_urlsafe(32)

    async def user(self, request: PageRequest) -> PageUser:
        token = bearer_token(request.header("Authorization"))
        if not token:
            return ANONYMOUS
        if not hmac.compare_digest(token.encode(), self.key.encode()):
            raise UnauthorizedError("the key is not the one of the link that was printed last")
        return CONSOLE_USER

    def link(self, url: str) -> str:
        """Return the address that opens the console. url: of the server."""
        return f"{url}{PREFIX}#key={self.key}"


def one_of(query: Query, name: str, default: str = "") -> str:
    """Return the value of a parameter. Raises ValueError if it is given several times."""
    values: Sequence[str] = query.get(name, [])
    if len(values) > 1:
        raise ValueError(f"{name} is given {len(values)} times")
    return values[0] if values else default


def _json(content: Any) -> PageResponse:
    return PageResponse(body=msgspec.json.encode(content), content_type=JSON, lines=HEADER_LINES)
