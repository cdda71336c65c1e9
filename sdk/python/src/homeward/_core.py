"""The decisions of a call, without I/O.

A call is a generator. It yields what to do, a `Request` to send or a `Pause` to wait for, and is
sent the `Reply` or `NoReply` of each request. Its return value is the result of the call:

    step = next(steps)
    while True:
        try:
            step = steps.send(http(step) if isinstance(step, Request) else sleep(step))
        except StopIteration as end:
            return end.value

So the synchronous and the asynchronous client differ in how they send and sleep, and in nothing else.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast
from urllib.parse import urlencode, urlsplit

from ._api import Cancellation, Problem
from ._outcome import Declined, HomewardError, Outcome, Retry, Succeeded, Unknown, WhyUnknown

T = TypeVar("T")

MAX_SERVER_WAIT = 60.0
"""Seconds. If the API asks for a longer wait, the caller decides."""

MAX_ANSWER = 8 << 20
"""Bytes. Objects and problems are far shorter."""


@dataclass(frozen=True)
class Request:
    """One request to send. timeout is for all of it, in seconds."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    timeout: float


@dataclass(frozen=True)
class Pause:
    """Seconds to wait before the next request."""

    seconds: float


@dataclass(frozen=True)
class Reply:
    """Any HTTP answer, of the API or of what stands before it. headers have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class NoReply:
    """A request without an answer. unsent: there was no connection to send it on."""

    cause: Exception
    unsent: bool


Step = Request | Pause
Steps = Generator[Step, "Reply | NoReply | None", T]


@dataclass(frozen=True)
class _Read:
    """A reply, understood. kind is as in Unknown: an object, a problem, or nothing that is the API's."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    object: Any = None
    raw: bytes = b""
    problem: Problem | None = None
    retry_after: float = 0.0
    detail: str = ""
    again: bool = False
    """Of neither object nor problem: a retry may help."""
    unsent: bool = False
    cause: Exception | None = None

    @property
    def nothing(self) -> bool:
        """No answer, or one that is not the API's: the outcome is unknown."""
        return self.object is None and self.problem is None

    @property
    def worth_repeating(self) -> bool:
        """A retry of the request may get another answer. A soft decline is an answer."""
        if self.problem is not None:
            return self.problem["retry"] == "same_key" and self.problem["error"] != "card_declined"
        return self.again

    @property
    def elsewhere(self) -> bool:
        """Another region may have an answer."""
        if self.problem is not None:
            return self.problem["error"] in ("store_unavailable", "internal")
        return self.object is None


def read(reply: Reply | NoReply, has: str) -> _Read:
    """Understand a reply. has is the member that tells an answer of the API from a proxy's JSON."""
    if isinstance(reply, NoReply):
        return _Read(detail="no answer", again=True, unsent=reply.unsent, cause=reply.cause)
    status, headers = reply.status, reply.headers
    value = _object(reply.body)
    if status in (200, 201, 202):
        if value is None or has not in value:
            return _Read(status, headers, detail="the answer is not the expected JSON", again=True)
        return _Read(status, headers, object=value, raw=reply.body)
    after = _retry_after(headers.get("retry-after", ""))
    if value is not None and isinstance(value.get("error"), str) and isinstance(value.get("retry"), str):
        ms = value.get("retry_after_ms")
        if isinstance(ms, int) and ms > 0:
            after = ms / 1000  # more precise than the header
        return _Read(status, headers, problem=cast(Problem, value), retry_after=after)
    # A balancer or a proxy answered. A retry may help with a fault of its own; no retry helps with
    # a request that it refuses.
    again = status >= 500 or status in (429, 408)
    return _Read(
        status, headers, detail=f"status {status}, and the answer is not the API's", again=again, retry_after=after
    )


def _object(body: bytes) -> dict[str, Any] | None:
    if len(body) > MAX_ANSWER:
        return None
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _retry_after(value: str) -> float:
    """Read the header's delay in seconds; a date would need clocks to agree."""
    return float(value) if re.fullmatch("[0-9]{1,9}", value) else 0.0


class Calls:
    """The calls of one client. Its settings are those of `Homeward`."""

    def __init__(
        self,
        base_urls: Sequence[str],
        api_key: str,
        max_attempts: int,
        timeout: float,
        backoff_min: float,
        backoff_max: float,
    ) -> None:
        if isinstance(base_urls, str) or not base_urls:
            raise ValueError("homeward: base_urls is empty or a single text; list at least one region")
        if not api_key:
            raise ValueError("homeward: api_key is missing")
        for base in base_urls:
            u = urlsplit(base)
            if u.scheme not in ("http", "https") or not u.netloc or u.query or u.fragment:
                raise ValueError(f"homeward: base URL {base!r} must look like https://host")
        if max_attempts < 1 or not timeout > 0 or not backoff_min >= 0 or not backoff_max >= backoff_min:
            raise ValueError(
                "homeward: max_attempts, timeout, backoff_min and backoff_max must be above 0, "
                "and the last no less than the one before"
            )
        self.bases = [base.rstrip("/") for base in base_urls]
        self.api_key = api_key
        self.max_attempts = max_attempts
        self.timeout = timeout
        self.backoff_min, self.backoff_max = backoff_min, backoff_max
        self.base = 0
        """The region that the next call begins at: the one that answered last, or the one after a region
        that did not. Threads may race for it: any value is right."""
        self.now: Callable[[], float] = time.monotonic
        self.random: Callable[[], float] = random.random

    def move(self, path: str, key: str, params: Mapping[str, Any], within: float | None) -> Steps[Outcome[Any]]:
        """Move money, or order what becomes of it, under key."""
        _check(key)
        return self._move(path, key, encode(params), within)

    def _move(self, path: str, key: str, body: bytes, within: float | None) -> Steps[Outcome[Any]]:
        seen, attempts, doubt = yield from self._repeat("POST", path, key, body, "id", within)
        expires = seen.headers.get("idempotency-expires-at")
        answer: dict[str, Any] = {
            "idempotency_key": key,
            "attempts": attempts,
            "replayed": not seen.nothing and seen.headers.get("idempotent-replayed") == "true",
            "home_region": None if seen.nothing else seen.headers.get("homeward-home-region"),
            "served_by": None if seen.nothing else seen.headers.get("homeward-served-by"),
            "expires_at": None if seen.nothing or not expires else _time(expires),
        }

        def unknown(why: WhyUnknown, retry: Retry) -> Unknown[Any]:
            return Unknown(
                why=why,
                object=seen.object,
                retry=retry,
                retry_after=seen.retry_after,
                problem=seen.problem,
                cause=seen.cause,
                **answer,
            )

        if seen.object is not None:
            if seen.status == 202:
                return unknown("waiting", "same_key")
            return Succeeded(object=seen.object, raw=seen.raw, **answer)
        problem = seen.problem
        if problem is None:
            return unknown("no_answer", "same_key")
        error, retry = problem["error"], problem["retry"]
        # With a code, the provider or the state of the charge refused.
        if error in ("card_declined", "idempotency_key_canceled") or (
            error == "invalid_request" and problem.get("code")
        ):
            return Declined(
                code=problem.get("code"),
                detail=problem.get("detail", ""),
                retry=retry,
                retry_after=seen.retry_after,
                problem=problem,
                **answer,
            )
        if error == "idempotency_key_expired":
            return unknown("expired", retry)
        if error == "outcome_unknown" and retry != "same_key":
            return unknown("given_up", retry)
        if error == "idempotency_key_fingerprint_mismatch":
            raise refusal(seen, attempts)  # the key belongs to another request
        if retry == "same_key":
            return unknown("in_progress", "same_key")
        if doubt:
            return unknown("refused", "same_key")
        raise refusal(seen, attempts)

    def get(self, path: str, has: str, within: float | None) -> Steps[Any]:
        """Read an object, which has this member."""
        return self._read("GET", path, None, has, within)

    def cancel_key(self, key: str, path: str, within: float | None) -> Steps[Cancellation]:
        """Give a key up."""
        _check(key)
        return self._cancel_key(path, within)

    def _cancel_key(self, path: str, within: float | None) -> Steps[Cancellation]:
        seen, attempts, doubt = yield from self._repeat("POST", path, None, None, "outcome", within)
        if seen.object is not None:
            return cast(Cancellation, seen.object)
        error = refusal(seen, attempts)
        if doubt and not (
            seen.problem and (seen.problem.get("code") or seen.problem["error"] == "idempotency_key_expired")
        ):
            error.retry = "same_key"  # it may have been done; calling again says what became of it
        raise error from seen.cause

    def mint(self, count: int, within: float | None) -> Steps[list[str]]:
        """Mint keys."""
        return self._minted(self._read("POST", "/v1/idempotency-keys", encode({"count": count}), "keys", within))

    def _minted(self, steps: Steps[Any]) -> Steps[list[str]]:
        found = yield from steps
        return [str(key) for key in found["keys"]]

    def _read(self, method: str, path: str, body: bytes | None, has: str, within: float | None) -> Steps[Any]:
        seen, attempts, _ = yield from self._repeat(method, path, None, body, has, within)
        if seen.object is None:
            raise refusal(seen, attempts) from seen.cause
        return seen.object

    def _repeat(
        self, method: str, path: str, key: str | None, body: bytes | None, has: str, within: float | None
    ) -> Steps[tuple[_Read, int, bool]]:
        """Repeat a request while that is worth it, up to max_attempts.

        Return the last answer, the number of requests, and whether one of them, or another call of the key,
        may have been executed without an answer: then only an answer of the claim itself has the outcome.
        """
        headers = {
            "Authorization": f"Bearer {self.api_key}",
            "Accept": "application/json, application/problem+json",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = quoted(key)
        end = None if within is None else self.now() + within
        base = self.base
        doubt = False
        answer: _Read | None = None  # the API's latest
        unreached = 0  # regions in a row to which nothing was sent
        untried = len(self.bases)  # regions that have not left an attempt of this call without an answer
        n = 0
        while True:
            n += 1
            # What is left is for all regions: one that takes connections and answers nothing gets its share.
            left = self.timeout if end is None else max(end - self.now(), 0.001) / max(untried, 1)
            timeout = min(self.timeout, left)
            reply = yield Request(method, self.bases[base % len(self.bases)] + path, dict(headers), body, timeout)
            if reply is None:
                raise TypeError("homeward: a request needs its reply")
            seen = read(reply, has)
            if home := seen.headers.get("homeward-home-region"):
                headers["Homeward-Home-Region"] = home  # a hint: it saves a look-up
            doubt = (
                doubt
                or seen.nothing
                or (seen.problem is not None and _open(seen.problem, seen.status))
            )
            if seen.problem is not None:
                answer = seen
            if seen.elsewhere:
                base += 1
            self.base = base % len(self.bases)  # however the call ends, the next one does not begin at a dead region
            if seen.object is not None:
                return seen, n, doubt
            untried -= seen.status == 0
            last = seen if answer is None or seen.status != 0 else answer
            if end is not None and self.now() >= end:
                return last, n, doubt
            if not seen.worth_repeating or n >= self.max_attempts or seen.retry_after > MAX_SERVER_WAIT:
                return seen, n, doubt
            unreached = unreached + 1 if seen.unsent else 0
            if unreached % len(self.bases) != 0:
                continue  # the next region may listen; after a round of all there is a pause
            pause = seen.retry_after + self._jitter(n)
            if end is not None and self.now() + pause >= end:
                return last, n, doubt  # nothing would be sent after the pause
            yield Pause(pause)

    def _jitter(self, n: int) -> float:
        """Full jitter, so that clients that failed at once do not retry at once."""
        return self.random() * min(self.backoff_max, self.backoff_min * 2.0 ** min(n - 1, 32))


def _open(problem: Problem, status: int) -> bool:
    """Whether money may have moved: the API does not know, or another call of the key is under way."""
    return problem["error"] == "idempotency_key_in_use" or (problem["retry"] == "same_key" and status >= 500)


def _check(key: str) -> None:
    if not key:
        raise ValueError(
            "homeward: the idempotency key is missing; make one with new_key() and store it before the call"
        )
    if not re.fullmatch("[!-~]{1,255}", key):
        raise ValueError("homeward: the idempotency key must be 1 to 255 visible ASCII characters, without spaces")


def encode(params: Mapping[str, Any]) -> bytes:
    """Serialise a request once; its retries repeat these bytes."""
    return json.dumps(params, default=_encode, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _encode(value: object) -> str:
    if isinstance(value, datetime):
        return _zoned(value).isoformat()
    raise TypeError(f"homeward: {type(value).__name__} is not JSON")


def query_of(members: Mapping[str, str | int | datetime | None]) -> str:
    """Write the query of a list, with times in Unix seconds, and without what is None."""
    given = {
        name: int(_zoned(value).timestamp()) if isinstance(value, datetime) else value
        for name, value in members.items()
        if value is not None
    }
    return f"?{urlencode(given)}" if given else ""


def _zoned(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise ValueError("homeward: a datetime needs a time zone: datetime.now(timezone.utc)")
    return at


def quoted(key: str) -> str:
    """Return the String of RFC 9651, which every key can be."""
    return '"' + re.sub(r'(["\\])', r"\\\1", key) + '"'


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def refusal(seen: _Read, attempts: int) -> HomewardError:
    """Return the error of a request that moved nothing."""
    if seen.problem is None:
        return HomewardError(
            f"homeward: {seen.detail}", status=seen.status, problem=None, retry="same_key", attempts=attempts
        )
    said = f"homeward: {seen.problem['error']}: {seen.problem.get('detail', '')}"
    return HomewardError(said, status=seen.status, problem=seen.problem, retry=seen.problem["retry"], attempts=attempts)
