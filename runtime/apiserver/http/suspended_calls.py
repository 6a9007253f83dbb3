"""Has the questions of suspended requests answered, on the event loop: calls webhooks, over connections that are kept.

Errors read as those of Go's HTTP client, since clients see them.

Source: apiserver pkg/util/webhook/client.go, client-go rest/request.go (v1.36).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import zlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from kcm.protocols.bounded_cache import bounded_cache
from kcm.runtime.apiserver.core.questions import PAUSED, Answer, Outside, Pause, Post, Question, Work
from kcm.runtime.apiserver.core.suspended_requests import Suspended
from kcm.runtime.apiserver.http.long_work import LongWork
from kcm.runtime.apiserver.http.slices import Gradually
from kcm.runtime.client.api import Response

if TYPE_CHECKING:
    import aiohttp

AT_ONCE = 256  # connections
MOST_ANSWERED = 8 * 1024 * 1024  # bytes of an answer, decompressed, beside what a longer question allows; as ours
AT_A_TIME = 64 * 1024  # bytes
# What OpenSSL calls a chain whose root is not known.
_UNKNOWN_AUTHORITY = {18, 19, 20, 21}
_EXPIRED, _OTHER_NAME = 10, {62, 64}


class OutsideCalls:
    """All methods are called on the loop's thread."""

    def __init__(self, acting_for: Callable[[Outside], AbstractContextManager[None]]) -> None:
        """acting_for: see ApiServer."""
        self._acting_for = acting_for
        self._long_work: LongWork | None = None  # once there is some
        self._session: aiohttp.ClientSession | None = None
        self._running: set[asyncio.Task[None]] = set()

    def go_on(
        self, suspended: Suspended, then: Callable[[Response], None], failed: Callable[[Exception], None]
    ) -> None:
        """Call `then` with the response once it is there, or `failed` with what was raised."""
        self._run(self._go_on(suspended, then, failed))

    def answer(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        """Call back with the answers, in the order of the questions."""
        self._run(self._answer_all(questions, then))

    async def _answer_all(self, questions: Sequence[Question], then: Callable[[list[Answer]], None]) -> None:
        then(await asyncio.gather(*map(self._answer, questions)))

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """Abandon all that run."""
        for task in self._running:
            task.cancel()
        if self._session is not None:
            await self._session.close()

    async def _go_on(
        self, suspended: Suspended, then: Callable[[Response], None], failed: Callable[[Exception], None]
    ) -> None:
        outcome: Response | Suspended = suspended
        try:
            while isinstance(outcome, Suspended):
                outcome = outcome.resume(await asyncio.gather(*map(self._answer, outcome.questions)))
            then(outcome)
        except Exception as error:
            failed(error)

    async def _answer(self, question: Question) -> Answer:
        if isinstance(question, Pause):
            await asyncio.sleep(question.seconds)
            return PAUSED
        if isinstance(question, Work):
            return await self._carried_out(question)
        import aiohttp  # heavy, and most servers call nobody

        if self._session is None:
            connector = aiohttp.TCPConnector(limit=AT_ONCE, ttl_dns_cache=10)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # it has no limit
                headers={"Accept-Encoding": "gzip"},  # as Go's client
            )
        try:
            async with asyncio.timeout(question.seconds):
                return await self._post(self._session, question)
        except TimeoutError:
            error = "context deadline exceeded"
        except aiohttp.ClientConnectorCertificateError as err:
            error = f"tls: failed to verify certificate: x509: {_wrong_certificate(err.certificate_error)}"
        except aiohttp.ClientConnectorError as err:
            why = os.strerror(err.os_error.errno) if err.os_error.errno else str(err.os_error)
            error = f"dial tcp {err.host}:{err.port}: connect: {why.lower()}"
        except aiohttp.ServerDisconnectedError:
            error = "EOF"
        except (aiohttp.ClientError, ValueError, OSError) as err:
            error = str(err) or type(err).__name__
        return Answer(error=f'Post "{question.url}": {error}')

    async def _carried_out(self, work: Work) -> Answer:
        loop = asyncio.get_running_loop()
        if self._long_work is None:
            in_slices = Gradually(now=loop.time, soon=loop.call_soon)
            self._long_work = LongWork(in_slices, now=loop.time, acting_for=self._acting_for)
        done: asyncio.Future[Answer] = loop.create_future()

        def then(answer: Answer) -> None:
            if not done.done():  # else the server ends
                done.set_result(answer)

        self._long_work.do(work, then)
        return await done

    async def _post(self, session: aiohttp.ClientSession, question: Post) -> Answer:
        from yarl import URL  # comes with aiohttp

        target = URL(question.url, encoded=True)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        name: str | None = None
        if question.address is not None:
            name, headers["Host"] = target.host, target.authority
            target = target.with_host(question.address[0]).with_port(question.address[1])
        response = await session.post(
            target,
            data=question.body,
            headers=headers,
            ssl=_trusting(question.authority),
            server_hostname=name,
            allow_redirects=False,
        )
        # A list of objects that are converted comes back at about the size that it was sent in.
        most = max(MOST_ANSWERED, 4 * len(question.body))
        async with response:
            return Answer(response.status, await _read(response, most))


async def _read(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read a body, decompressed. Raises ValueError on more than `most` bytes, and on invalid gzip."""
    is_gzip = response.headers.get("Content-Encoding", "").strip().lower() == "gzip"
    if not is_gzip and (response.content_length or 0) > most:
        raise _too_large(most)
    unpacker = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS) if is_gzip else None
    body = bytearray()
    async for chunk in response.content.iter_chunked(AT_A_TIME):
        if unpacker is None:
            body += chunk
        else:
            try:
                body += unpacker.decompress(chunk, most + 1 - len(body))
            except zlib.error as err:
                raise ValueError(f"gzip: {err}") from err
            if unpacker.eof:
                break
        if len(body) > most:
            raise _too_large(most)
    if unpacker is not None and not unpacker.eof:
        raise ValueError("unexpected EOF")
    return bytes(body)


def _too_large(most: int) -> ValueError:
    return ValueError(f"the response is larger than {most} bytes")


@bounded_cache(64, longest=512 * 1024)
def _trusting(authority: bytes) -> ssl.SSLContext:
    """As Go does, one trusts a certificate of the bundle itself too, and asks for no extensions that name its issuer.

    Raises ValueError on what is no bundle.
    """
    context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _wrong_certificate(error: Exception) -> str:
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY:
        return "certificate signed by unknown authority"
    if code == _EXPIRED:
        return "certificate has expired or is not yet valid"
    if code in _OTHER_NAME:
        return "certificate is not valid for the name that it is called by"
    return str(getattr(error, "verify_message", "") or error)
