"""What no scenario of every client has: settings, time, cancellation, and how long clients live."""

from __future__ import annotations

import asyncio
import json
import unittest
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx

from homeward import AsyncHomeward, Homeward, HomewardError, Unknown
from homeward._core import Calls, NoReply, Pause, Reply, Request, Step, Steps, encode, query_of

URL = "https://us.example.com"
PARAMS: dict[str, Any] = {"amount": 1999, "currency": "usd", "payment_method": "pm_1"}
OPEN = Reply(503, {}, b'{"error": "outcome_unknown", "detail": "D.", "retry": "same_key", "retry_after_ms": 5000}')
LOST = NoReply(OSError("lost"), unsent=False)


def calls(*bases: str, **more: Any) -> Calls:  # noqa: ANN401
    """Return calls with a clock that stands still."""
    settings: dict[str, Any] = {"max_attempts": 10, "timeout": 100.0, "backoff_min": 0.1, "backoff_max": 10.0} | more
    made = Calls(bases or (URL,), "sk", **settings)
    made.now = lambda: 0.0
    made.random = lambda: 0.5
    return made


class Answers(httpx.AsyncBaseTransport):
    """Answers with what a coroutine returns."""

    def __init__(self, answer: Callable[[httpx.Request], Awaitable[httpx.Response]]) -> None:
        self.answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        return await self.answer(request)


class Decisions(unittest.TestCase):
    """The core, without I/O and without time."""

    def test_full_jitter(self) -> None:
        """A pause is what the API asks for, and a random part below a ceiling that doubles."""
        steps = calls(backoff_max=0.4, max_attempts=6).move("/v1/charges", "k", PARAMS, None)
        step: Step = next(steps)
        pauses = []
        replies: list[Reply | NoReply] = [LOST, OPEN, LOST, LOST, LOST]
        for reply in replies:
            self.assertIsInstance(step, Request)
            pause = steps.send(reply)
            assert isinstance(pause, Pause)
            pauses.append(pause.seconds)
            step = steps.send(None)
        self.assertEqual(pauses, [0.05, 5.1, 0.2, 0.2, 0.2])

    def test_the_caller_gives_up_in_an_attempt(self) -> None:
        """The API's latest answer is the outcome, and no attempt is longer than what is left."""
        core = calls()
        clock = [0.0]
        core.now = lambda: clock[0]
        steps = core.move("/v1/charges", "k", PARAMS, 30.0)
        first = next(steps)
        assert isinstance(first, Request)
        self.assertEqual(first.timeout, 30.0)
        self.assertEqual(steps.send(OPEN), Pause(5.05))
        clock[0] = 10.0
        second = steps.send(None)
        assert isinstance(second, Request)
        self.assertEqual(second.timeout, 20.0)
        clock[0] = 30.0
        with self.assertRaises(StopIteration) as end:
            steps.send(LOST)
        made = end.exception.value
        assert isinstance(made, Unknown)
        self.assertEqual(
            (made.why, made.attempts, made.problem and made.problem["error"]), ("in_progress", 2, "outcome_unknown")
        )

    def test_the_caller_gives_up_before_a_pause(self) -> None:
        """A pause after which nothing would be sent is not made."""
        steps = calls().move("/v1/charges", "k", PARAMS, 5.0)
        next(steps)
        with self.assertRaises(StopIteration) as end:
            steps.send(OPEN)
        self.assertEqual((end.exception.value.why, end.exception.value.retry_after), ("in_progress", 5.0))

    def test_a_silent_region_gets_its_share(self) -> None:
        """A call with an end leaves a region that is silent for the next one, and so do the calls after it."""
        core = calls("https://a.example.com", "https://b.example.com")
        clock = [0.0]
        core.now = lambda: clock[0]
        paths: tuple[Steps[Any], ...] = (
            core.move("/v1/charges", "k", PARAMS, 3.0),
            core.cancel_key("k", "/c", 3.0),
            core.get("/g", "id", 3.0),
        )
        for path in paths:
            core.base, began = 0, clock[0]
            first = next(path)
            assert isinstance(first, Request)
            self.assertEqual((first.url[:17], first.timeout), ("https://a.example", 1.5))
            clock[0] += first.timeout
            step = path.send(LOST)
            assert isinstance(step, Pause)
            clock[0] += step.seconds
            second = path.send(None)
            assert isinstance(second, Request)
            self.assertEqual((second.url[:17], second.timeout), ("https://b.example", began + 3.0 - clock[0]))
            with self.assertRaises(StopIteration):
                path.send(Reply(200, {}, b'{"id": "ch_1", "outcome": "unused"}'))
            self.assertEqual(core.base, 1)

    def test_a_call_without_an_answer_leaves_its_region(self) -> None:
        """The next call begins at the next region: not at a dead one, and at one that declined."""
        core = calls("https://a.example.com", "https://b.example.com", max_attempts=1)
        no = Reply(402, {}, b'{"error": "card_declined", "retry": "new_key"}')
        replies: tuple[tuple[Reply | NoReply, int], ...] = ((LOST, 1), (no, 1), (LOST, 0))
        for reply, base in replies:
            steps = core.move("/v1/charges", "k", PARAMS, 3.0)
            next(steps)
            with self.assertRaises(StopIteration):
                steps.send(reply)
            self.assertEqual(core.base, base)

    def test_answers_that_are_too_much(self) -> None:
        """A page that breaks the parser is no answer."""
        for body in (b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"\xff", b" " * (9 << 20)):
            steps = calls(max_attempts=1).move("/v1/charges", "k", PARAMS, None)
            next(steps)
            with self.assertRaises(StopIteration) as end:
                steps.send(Reply(201, {}, body))
            self.assertEqual(end.exception.value.why, "no_answer")

    def test_settings(self) -> None:
        """Mistakes are named before anything is sent."""
        mistakes: tuple[tuple[dict[str, Any], str], ...] = (
            ({"base_urls": []}, "base_urls is empty"),
            ({"base_urls": URL}, "a single text"),
            ({"base_urls": ["us.example.com"]}, "must look like https"),
            ({"base_urls": ["ftp://us.example.com"]}, "must look like https"),
            ({"base_urls": [URL + "?a=b"]}, "must look like https"),
            ({"api_key": ""}, "api_key is missing"),
            ({"max_attempts": 0}, "must be above 0"),
            ({"timeout": 0.0}, "must be above 0"),
            ({"backoff_max": 0.01}, "must be above 0"),
        )
        for settings, says in mistakes:
            given: dict[str, Any] = {"base_urls": [URL], "api_key": "sk"} | settings
            for client in (Homeward, AsyncHomeward):
                with self.assertRaisesRegex(ValueError, says):
                    client(**given)
        for key, says in (
            ("", "key is missing"),
            ("order 7", "visible ASCII"),
            ("é", "visible ASCII"),
            ("k" * 256, "visible ASCII"),
        ):
            with self.assertRaisesRegex(ValueError, says):
                calls().move("/v1/charges", key, PARAMS, None)

    def test_bodies(self) -> None:
        """Times have a zone, numbers are JSON's, and what is not JSON is refused."""
        at = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=1)))
        self.assertEqual(
            encode({"expires_at": at, "description": "dé"}),
            '{"expires_at":"2030-01-01T00:00:00+01:00","description":"dé"}'.encode(),
        )
        for value, says in ((datetime(2030, 1, 1), "time zone"), (float("nan"), "not JSON compliant")):
            with self.assertRaisesRegex(ValueError, says):
                encode({"a": value})
        self.assertEqual(
            query_of({"created[gte]": at, "limit": 3, "order_id": None}), "?created%5Bgte%5D=1893452400&limit=3"
        )
        self.assertEqual(query_of({"order_id": None}), "")
        with self.assertRaisesRegex(ValueError, "time zone"):
            query_of({"created[gte]": datetime(2030, 1, 1)})
        with self.assertRaisesRegex(TypeError, "set is not JSON"):
            encode({"a": set()})


class Lives(unittest.IsolatedAsyncioTestCase):
    """How clients send, end and are ended."""

    def test_a_client_is_closed(self) -> None:
        """By its with statement, unless its connections are the caller's."""
        with Homeward([URL], "sk") as own:
            pass
        self.assertTrue(own._http.is_closed)
        with httpx.Client() as theirs:
            with Homeward([URL], "sk", http_client=theirs):
                pass
            self.assertFalse(theirs.is_closed)

    async def test_an_async_client_is_closed(self) -> None:
        """By its with statement, unless its connections are the caller's."""
        async with AsyncHomeward([URL], "sk") as own:
            pass
        self.assertTrue(own._http.is_closed)
        async with httpx.AsyncClient() as theirs:
            async with AsyncHomeward([URL], "sk", http_client=theirs):
                pass
            self.assertFalse(theirs.is_closed)

    def test_a_key_is_inspected(self) -> None:
        """Its path is quoted."""
        seen: list[httpx.Request] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request)
            return httpx.Response(200, json={"key": "a/b"})

        with (
            httpx.Client(transport=httpx.MockTransport(answer)) as http,
            Homeward([URL], "sk", http_client=http) as homeward,
        ):
            self.assertEqual(homeward.inspect_key("a/b")["key"], "a/b")
        self.assertEqual(seen[0].url.raw_path, b"/v1/idempotency-keys/%22a%2Fb%22")

    def test_an_answer_that_is_too_long_is_not_read(self) -> None:
        """It is cut off, and is no answer."""
        read = []

        def parts() -> Any:  # noqa: ANN401
            for n in range(64):
                read.append(n)
                yield b"x" * (1 << 20)

        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(201, content=parts())

        with httpx.Client(transport=httpx.MockTransport(answer)) as http:
            made = Homeward([URL], "sk", http_client=http, max_attempts=1).charge("k", **PARAMS)
        self.assertEqual(made.why if isinstance(made, Unknown) else made, "no_answer")
        self.assertLess(len(read), 12)

    def test_a_read_without_an_answer_is_an_error(self) -> None:
        """It has the network's error as its cause."""

        def answer(request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("refused")

        with httpx.Client(transport=httpx.MockTransport(answer)) as http, self.assertRaises(HomewardError) as error:
            Homeward([URL], "sk", http_client=http, max_attempts=1).get_charge("ch_1")
        self.assertEqual((error.exception.status, error.exception.retry), (0, "same_key"))
        self.assertIsInstance(error.exception.__cause__, httpx.ConnectError)

    async def test_a_task_is_cancelled(self) -> None:
        """The cancellation goes through, and the client serves the next call, with the same key."""
        arrived = asyncio.Event()
        keys = []

        async def answer(request: httpx.Request) -> httpx.Response:
            keys.append(request.headers["Idempotency-Key"])
            if len(keys) == 1:
                arrived.set()
                await asyncio.Event().wait()
            return httpx.Response(201, content=json.dumps({"id": "ch_1"}))

        async with httpx.AsyncClient(transport=Answers(answer)) as http:
            homeward = AsyncHomeward([URL], "sk", http_client=http)
            call = asyncio.create_task(homeward.charge("k", **PARAMS))
            await arrived.wait()
            call.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await call
            made = await homeward.charge("k", **PARAMS)
        self.assertEqual((made.attempts, keys), (1, ['"k"', '"k"']))
