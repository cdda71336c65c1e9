"""The scenarios of every client, ../../scenarios.json, from the harness at HOMEWARD_SDK.

``go run ./sdk/harness python3 -m unittest discover -s sdk/python/tests -t sdk/python`` starts one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import unittest
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any
from unittest import mock

import httpx

from homeward import AsyncHomeward, Declined, Homeward, HomewardError, Succeeded, Unknown, home_of, new_key

HARNESS = os.environ.get("HOMEWARD_SDK", "")

Json = dict[str, Any]


def ask(at: str, result: object = None) -> Any:  # noqa: ANN401
    """Report a result to the harness, and return its next instruction."""
    body = None if at == "/" else b"" if result is None else json.dumps(result).encode()
    with urllib.request.urlopen(urllib.request.Request(HARNESS + at, data=body)) as answer:  # noqa: S310
        return json.load(answer)


def settings(c: Json) -> Json:
    """Return the arguments of a client."""
    return {
        "base_urls": c["base_urls"],
        "api_key": c["api_key"],
        "max_attempts": c["max_attempts"],
        "timeout": c["timeout_ms"] / 1000,
        "backoff_min": c["backoff_min_ms"] / 1000,
        "backoff_max": c["backoff_max_ms"] / 1000,
    }


@contextlib.contextmanager
def sleeps(records: bool) -> Iterator[list[float]]:
    """Record the pauses of both clients, in ms, and wait for none."""
    pauses: list[float] = []

    async def rest(seconds: float) -> None:
        pauses.append(seconds * 1000)

    if not records:
        yield pauses
        return
    with (
        mock.patch("homeward._client.sleep", lambda seconds: pauses.append(seconds * 1000)),
        mock.patch("homeward._client.async_sleep", rest),
    ):
        yield pauses


def reported(result: object, pauses: list[float]) -> Json:
    """Return what came of a call, as the harness reads it."""
    said: Json = {"pauses": pauses}
    match result:
        case Succeeded() | Declined() | Unknown():
            said |= {
                "attempts": result.attempts,
                "replayed": result.replayed,
                "home_region": result.home_region,
                "served_by": result.served_by,
                "expires_at": result.expires_at and result.expires_at.timestamp(),
            }
            match result:
                case Succeeded():
                    said |= {"outcome": "succeeded", "object": result.object, "raw": result.raw.decode()}
                case Declined():
                    said |= {"outcome": "declined", "code": result.code}
                case Unknown():
                    said |= {"outcome": "unknown", "why": result.why, "object": result.object}
            if isinstance(result, Declined | Unknown):
                said |= {"retry": result.retry, "retry_after_ms": round(result.retry_after * 1000)}
        case HomewardError():
            problem: Json = dict(result.problem or {})
            said |= {"outcome": "refused", "status": result.status, "retry": result.retry, "attempts": result.attempts}
            said |= {name: problem.get(name) for name in ("error", "code", "member")}
        case list():
            said["keys"] = result
        case _:
            said |= {"outcome": "found", "object": result}
    return said


def arguments(args: Json) -> tuple[list[Any], Json]:
    """Return the arguments of a method: the key, the charge or the id, and those with names."""
    args = dict(args)
    for name in ("created_from", "created_until"):
        if name in args:
            args[name] = datetime.fromtimestamp(args[name], timezone.utc)
    first = [args.pop(name) for name in ("key", "charge", "id", "count") if name in args]
    return first, args.pop("params", args)


def local(call: str, args: Json) -> Json | None:
    """Return the result of what needs no client."""
    match call:
        case "new_key":
            return {"key": new_key(args["home"])}
        case "home_of":
            return {"home": home_of(args["text"])}
    return None


@unittest.skipUnless(HARNESS, "HOMEWARD_SDK is not set")
class Scenarios(unittest.IsolatedAsyncioTestCase):
    """Each scenario, with each client."""

    def test_sync(self) -> None:
        """Threads."""
        with httpx.Client() as http:
            for scenario in ask("/"):
                with self.subTest(scenario["name"]):
                    self.play(scenario["at"], http)

    def play(self, at: str, http: httpx.Client) -> None:
        """Play a scenario."""
        step = ask(at)
        with ThreadPoolExecutor(8) as threads:
            while "call" in step:
                if "client" in step:
                    homeward = Homeward(**settings(step["client"]), http_client=http)
                    records = step["client"]["records_pauses"]
                first, named = arguments(step.get("args", {}))

                def call(step: Json = step, homeward: Homeward = homeward) -> object:
                    try:
                        return getattr(homeward, step["call"])(*first, **named)  # noqa: B023
                    except HomewardError as error:
                        return error

                result = local(step["call"], step.get("args", {}))
                if result is not None:
                    step = ask(at, result)
                    continue
                with sleeps(records) as pauses:
                    made = [thread.result() for thread in [threads.submit(call) for _ in range(step["times"])]]
                results = [reported(each, pauses) for each in made]
                step = ask(at, results if step["times"] > 1 else results[0])
        self.assertNotIn("wrong", step)

    async def test_async(self) -> None:
        """Tasks."""
        async with httpx.AsyncClient() as http:
            for scenario in ask("/"):
                with self.subTest(scenario["name"]):
                    await self.play_async(scenario["at"], http)

    async def play_async(self, at: str, http: httpx.AsyncClient) -> None:
        """Play a scenario with the asynchronous client."""
        step = ask(at)
        while "call" in step:
            if "client" in step:
                homeward = AsyncHomeward(**settings(step["client"]), http_client=http)
                records = step["client"]["records_pauses"]
            result = local(step["call"], step.get("args", {}))
            if result is not None:
                step = ask(at, result)
                continue
            first, named = arguments(step["args"])
            with sleeps(records) as pauses:
                calls = [getattr(homeward, step["call"])(*first, **named) for _ in range(step["times"])]
                made = await asyncio.gather(*calls, return_exceptions=True)
            for error in made:
                if isinstance(error, BaseException) and not isinstance(error, HomewardError):
                    raise error
            results = [reported(each, pauses) for each in made]
            step = ask(at, results if step["times"] > 1 else results[0])
        self.assertNotIn("wrong", step)
