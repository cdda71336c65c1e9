"""The clients: how to send and how to sleep. What to do is in _core."""

from __future__ import annotations

import time
from asyncio import sleep as async_sleep
from collections.abc import Sequence
from datetime import datetime
from time import sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import httpx

from ._api import (
    Cancellation,
    Charge,
    ChargeList,
    ChargeNow,
    ChargeParams,
    KeyStatus,
    Refund,
    RefundList,
    RefundNow,
    RefundParams,
    Transfer,
    TransferNow,
    TransferParams,
)
from ._core import MAX_ANSWER, Calls, NoReply, Pause, Reply, Request, Steps, query_of, quoted
from ._outcome import Outcome

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")

# Connections are bounded by the calls in progress: a pool that refuses one would delay a payment.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)


def _id(text: str) -> str:
    return quote(text, safe="")


_TOO_MUCH = httpx.ReadTimeout("the answer is too long, or takes too long")


def _sent(request: Request) -> dict[str, Any]:
    return {
        "method": request.method,
        "url": request.url,
        "headers": request.headers,
        "content": request.body,
        # Of each read and write. Cancelling the whole instead races with it.
        "timeout": request.timeout,
        "follow_redirects": False,  # a redirected POST is another request
    }


def _failed(cause: Exception) -> NoReply:
    return NoReply(cause, isinstance(cause, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)))


def _reply(response: httpx.Response, body: bytes) -> Reply:
    return Reply(response.status_code, {name.lower(): value for name, value in response.headers.items()}, body)


class Homeward:
    """Calls Homeward.

        with Homeward(["https://us.example.com", "https://eu.example.com"], api_key) as homeward:
            made = homeward.charge(order.payment_key, amount=1999, currency="usd", payment_method="pm_card_visa")
        match made:
            case Succeeded(object=charge): ship(order, charge["id"])
            case Declined(code=code): ask_for_another_card(order, code)
            case Unknown(): call_again_later(order)  # with the same key

    Each call that moves money takes the caller's own key and sends it with all its retries. So a
    repetition charges once, after a crash, too. It is safe for concurrent use by threads; use one for
    the whole program, and `close` it, or use it in a with statement.

    - base_urls: the regions' addresses, the preferred one first. Name each region.
    - max_attempts: requests of one call, the first included. 10 is about half a minute if each fails
      at once, longer while the API waits or asks to wait.
    - timeout: of one attempt, in seconds, and of each of its reads. 100 is longer than the server works on
      a request.
    - backoff_min, backoff_max: bounds of the pause before a retry, in seconds: full jitter below a ceiling
      that doubles.
    - http_client: an httpx client with your proxies and certificates. It is yours to close.
    """

    def __init__(
        self,
        base_urls: Sequence[str],
        api_key: str,
        *,
        max_attempts: int = 10,
        timeout: float = 100.0,
        backoff_min: float = 0.1,
        backoff_max: float = 10.0,
        http_client: httpx.Client | None = None,
    ) -> None:
        self._calls = Calls(base_urls, api_key, max_attempts, timeout, backoff_min, backoff_max)
        self._http = http_client or httpx.Client(limits=_LIMITS)
        self._owned = http_client is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owned:
            self._http.close()

    def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    sleep(step.seconds)
                    step = steps.send(None)
                else:
                    step = steps.send(self._send(step))
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, request: Request) -> Reply | NoReply:
        end = time.monotonic() + request.timeout
        try:
            with self._http.stream(**_sent(request)) as response:
                body = bytearray()
                for part in response.iter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER or time.monotonic() > end:
                        break
                else:
                    return _reply(response, bytes(body))
        except (httpx.HTTPError, OSError) as cause:
            return _failed(cause)
        return _failed(_TOO_MUCH)

    def charge(self, key: str, *, within: float | None = None, **params: Unpack[ChargeParams]) -> Outcome[Charge]:
        """Charge a payment method.

            made = homeward.charge(order.payment_key, amount=1999, currency="usd", payment_method="pm_…")

        key is yours: made with `new_key` and stored with the order before the call. Repeat a call only
        with the same key and parameters. within ends the call after that many seconds: the outcome is then
        what is known so far, most often `Unknown`.

        It raises `HomewardError` if the request is wrong, and never if money may have moved.
        """
        return self._run(self._calls.move("/v1/charges", key, params, within))

    def transfer(self, key: str, *, within: float | None = None, **params: Unpack[TransferParams]) -> Outcome[Transfer]:
        """Pay out. Keys, within and errors are as in `charge`."""
        return self._run(self._calls.move("/v1/transfers", key, params, within))

    def refund(self, key: str, *, within: float | None = None, **params: Unpack[RefundParams]) -> Outcome[Refund]:
        """Give back a charge, or a part of it. Keys, within and errors are as in `charge`."""
        return self._run(self._calls.move("/v1/refunds", key, params, within))

    def capture(
        self, key: str, charge: str, *, amount: int | None = None, within: float | None = None
    ) -> Outcome[Charge]:
        """Take the money that a charge holds, or a part of it; the rest is released.

        The key is one of its own, not the charge's.
        """
        params = {} if amount is None else {"amount": amount}
        return self._run(self._calls.move(f"/v1/charges/{_id(charge)}/capture", key, params, within))

    def cancel(self, key: str, charge: str, *, within: float | None = None) -> Outcome[Charge]:
        """End a charge before its money moves. The key is one of its own, not the charge's."""
        return self._run(self._calls.move(f"/v1/charges/{_id(charge)}/cancel", key, {}, within))

    def cancel_key(self, key: str, *, within: float | None = None) -> Cancellation:
        """Give a key up: the honest end of a wait.

            gone = homeward.cancel_key(order.payment_key)
            if gone["outcome"] in ("unused", "not_made", "refunded"): ...  # the order is not paid, and will not be
            else: ...  # refund_pending or unknown: Homeward goes on by itself; ask again for its end

        Whatever arrives under the key later is refused, in every region. What is in flight is called off, or
        refunded once as soon as it is known to have moved money. Call it again as often as you like.

        It raises `HomewardError` where money cannot be called back (``problem["code"]`` is ``already_made``,
        ``not_refundable`` or ``outcome_unknown``, and its detail says what a person has to do), where the key
        has expired, and without an answer: ``retry`` is ``same_key`` then.
        """
        return self._run(self._calls.cancel_key(key, f"/v1/idempotency-keys/{_id(quoted(key))}/cancel", within))

    def get_charge(self, charge: str, *, within: float | None = None) -> ChargeNow:
        """Read a charge as it is now: later refunds, disputes and failures included.

        `charge` with the same key repeats what was answered. A read raises `HomewardError` if there is no
        such object, or no answer.
        """
        found: ChargeNow = self._run(self._calls.get(f"/v1/charges/{_id(charge)}", "id", within))
        return found

    def get_transfer(self, transfer: str, *, within: float | None = None) -> TransferNow:
        """Read a transfer as it is now."""
        found: TransferNow = self._run(self._calls.get(f"/v1/transfers/{_id(transfer)}", "id", within))
        return found

    def get_refund(self, refund: str, *, within: float | None = None) -> RefundNow:
        """Read a refund as it is now: ``failed`` if the provider took it back."""
        found: RefundNow = self._run(self._calls.get(f"/v1/refunds/{_id(refund)}", "id", within))
        return found

    def list_charges(
        self,
        *,
        order_id: str | None = None,
        created_from: datetime | None = None,
        created_until: datetime | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        within: float | None = None,
    ) -> ChargeList:
        """Read a page of the charges for which money moved, the latest first.

            page = homeward.list_charges(order_id=order.id)
            if page["has_more"]: ...  # the next page: after=page["data"][-1]["id"]

        created_from is included and created_until is not, in whole seconds. after is the last id of the page
        before, or before the first one of the page after. limit is 1 to 100, 10 if it is absent. Items are as
        the books have them: without their refunds, and of what was sent with order_id and metadata alone.
        """
        query = {
            "order_id": order_id,
            "created[gte]": created_from,
            "created[lt]": created_until,
            "starting_after": after,
            "ending_before": before,
            "limit": limit,
        }
        found: ChargeList = self._run(self._calls.get(f"/v1/charges{query_of(query)}", "data", within))
        return found

    def list_refunds(
        self,
        charge: str,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        within: float | None = None,
    ) -> RefundList:
        """Read a page of the refunds of a charge, the latest first. Pages are as in `list_charges`."""
        query = {"charge": charge, "starting_after": after, "ending_before": before, "limit": limit}
        found: RefundList = self._run(self._calls.get(f"/v1/refunds{query_of(query)}", "data", within))
        return found

    def inspect_key(self, key: str, *, within: float | None = None) -> KeyStatus:
        """Read the state and the history of a key."""
        found: KeyStatus = self._run(self._calls.get(f"/v1/idempotency-keys/{_id(quoted(key))}", "key", within))
        return found

    def mint_keys(self, count: int, *, within: float | None = None) -> list[str]:
        """Mint keys, 1 to 1000, with the region that answers as their home.

        Their first use saves a look-up. Nothing is stored.
        """
        return self._run(self._calls.mint(count, within))


class AsyncHomeward:
    """Calls Homeward from asyncio; otherwise as `Homeward`.

        async with AsyncHomeward(["https://us.example.com", "https://eu.example.com"], api_key) as homeward:
            made = await homeward.charge(order.payment_key, amount=1999, currency="usd", payment_method="pm_…")

    A call whose task is cancelled may have moved money: call again with the same key. It is safe for
    concurrent use by the tasks of one event loop. within gives up with an outcome instead.
    """

    def __init__(
        self,
        base_urls: Sequence[str],
        api_key: str,
        *,
        max_attempts: int = 10,
        timeout: float = 100.0,
        backoff_min: float = 0.1,
        backoff_max: float = 10.0,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        self._calls = Calls(base_urls, api_key, max_attempts, timeout, backoff_min, backoff_max)
        self._http = http_client or httpx.AsyncClient(limits=_LIMITS)
        self._owned = http_client is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owned:
            await self._http.aclose()

    async def _run(self, steps: Steps[T]) -> T:
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    await async_sleep(step.seconds)
                    step = steps.send(None)
                else:
                    step = steps.send(await self._send(step))
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, request: Request) -> Reply | NoReply:
        end = time.monotonic() + request.timeout
        try:
            async with self._http.stream(**_sent(request)) as response:
                body = bytearray()
                async for part in response.aiter_bytes():
                    body += part
                    if len(body) > MAX_ANSWER or time.monotonic() > end:
                        break
                else:
                    return _reply(response, bytes(body))
        except (httpx.HTTPError, OSError) as cause:
            return _failed(cause)
        return _failed(_TOO_MUCH)

    async def charge(self, key: str, *, within: float | None = None, **params: Unpack[ChargeParams]) -> Outcome[Charge]:
        """Charge a payment method.

            made = await homeward.charge(order.payment_key, amount=1999, currency="usd", payment_method="pm_…")

        key is yours: made with `new_key` and stored with the order before the call. Repeat a call only
        with the same key and parameters. within ends the call after that many seconds: the outcome is then
        what is known so far, most often `Unknown`.

        It raises `HomewardError` if the request is wrong, and never if money may have moved.
        """
        return await self._run(self._calls.move("/v1/charges", key, params, within))

    async def transfer(
        self, key: str, *, within: float | None = None, **params: Unpack[TransferParams]
    ) -> Outcome[Transfer]:
        """Pay out. Keys, within and errors are as in `charge`."""
        return await self._run(self._calls.move("/v1/transfers", key, params, within))

    async def refund(self, key: str, *, within: float | None = None, **params: Unpack[RefundParams]) -> Outcome[Refund]:
        """Give back a charge, or a part of it. Keys, within and errors are as in `charge`."""
        return await self._run(self._calls.move("/v1/refunds", key, params, within))

    async def capture(
        self, key: str, charge: str, *, amount: int | None = None, within: float | None = None
    ) -> Outcome[Charge]:
        """Take the money that a charge holds, or a part of it; the rest is released.

        The key is one of its own, not the charge's.
        """
        params = {} if amount is None else {"amount": amount}
        return await self._run(self._calls.move(f"/v1/charges/{_id(charge)}/capture", key, params, within))

    async def cancel(self, key: str, charge: str, *, within: float | None = None) -> Outcome[Charge]:
        """End a charge before its money moves. The key is one of its own, not the charge's."""
        return await self._run(self._calls.move(f"/v1/charges/{_id(charge)}/cancel", key, {}, within))

    async def cancel_key(self, key: str, *, within: float | None = None) -> Cancellation:
        """Give a key up: the honest end of a wait.

            gone = await homeward.cancel_key(order.payment_key)
            if gone["outcome"] in ("unused", "not_made", "refunded"): ...  # the order is not paid, and will not be
            else: ...  # refund_pending or unknown: Homeward goes on by itself; ask again for its end

        Whatever arrives under the key later is refused, in every region. What is in flight is called off, or
        refunded once as soon as it is known to have moved money. Call it again as often as you like.

        It raises `HomewardError` where money cannot be called back (``problem["code"]`` is ``already_made``,
        ``not_refundable`` or ``outcome_unknown``, and its detail says what a person has to do), where the key
        has expired, and without an answer: ``retry`` is ``same_key`` then.
        """
        return await self._run(self._calls.cancel_key(key, f"/v1/idempotency-keys/{_id(quoted(key))}/cancel", within))

    async def get_charge(self, charge: str, *, within: float | None = None) -> ChargeNow:
        """Read a charge as it is now: later refunds, disputes and failures included.

        `charge` with the same key repeats what was answered. A read raises `HomewardError` if there is no
        such object, or no answer.
        """
        found: ChargeNow = await self._run(self._calls.get(f"/v1/charges/{_id(charge)}", "id", within))
        return found

    async def get_transfer(self, transfer: str, *, within: float | None = None) -> TransferNow:
        """Read a transfer as it is now."""
        found: TransferNow = await self._run(self._calls.get(f"/v1/transfers/{_id(transfer)}", "id", within))
        return found

    async def get_refund(self, refund: str, *, within: float | None = None) -> RefundNow:
        """Read a refund as it is now: ``failed`` if the provider took it back."""
        found: RefundNow = await self._run(self._calls.get(f"/v1/refunds/{_id(refund)}", "id", within))
        return found

    async def list_charges(
        self,
        *,
        order_id: str | None = None,
        created_from: datetime | None = None,
        created_until: datetime | None = None,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        within: float | None = None,
    ) -> ChargeList:
        """Read a page of the charges for which money moved, the latest first.

            page = await homeward.list_charges(order_id=order.id)
            if page["has_more"]: ...  # the next page: after=page["data"][-1]["id"]

        created_from is included and created_until is not, in whole seconds. after is the last id of the page
        before, or before the first one of the page after. limit is 1 to 100, 10 if it is absent. Items are as
        the books have them: without their refunds, and of what was sent with order_id and metadata alone.
        """
        query = {
            "order_id": order_id,
            "created[gte]": created_from,
            "created[lt]": created_until,
            "starting_after": after,
            "ending_before": before,
            "limit": limit,
        }
        found: ChargeList = await self._run(self._calls.get(f"/v1/charges{query_of(query)}", "data", within))
        return found

    async def list_refunds(
        self,
        charge: str,
        *,
        after: str | None = None,
        before: str | None = None,
        limit: int | None = None,
        within: float | None = None,
    ) -> RefundList:
        """Read a page of the refunds of a charge, the latest first. Pages are as in `list_charges`."""
        query = {"charge": charge, "starting_after": after, "ending_before": before, "limit": limit}
        found: RefundList = await self._run(self._calls.get(f"/v1/refunds{query_of(query)}", "data", within))
        return found

    async def inspect_key(self, key: str, *, within: float | None = None) -> KeyStatus:
        """Read the state and the history of a key."""
        found: KeyStatus = await self._run(self._calls.get(f"/v1/idempotency-keys/{_id(quoted(key))}", "key", within))
        return found

    async def mint_keys(self, count: int, *, within: float | None = None) -> list[str]:
        """Mint keys, 1 to 1000, with the region that answers as their home.

        Their first use saves a look-up. Nothing is stored.
        """
        return await self._run(self._calls.mint(count, within))
