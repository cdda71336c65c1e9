"""Client of the Homeward payments API.

    from homeward import Declined, Homeward, Succeeded, Unknown, new_key

    order.payment_key = order.payment_key or new_key()
    save(order)  # before the call

    with Homeward(["https://us.payments.example.com", "https://eu.payments.example.com"], api_key) as homeward:
        made = homeward.charge(order.payment_key, amount=1999, currency="usd", payment_method="pm_card_visa")
    match made:
        case Succeeded(object=charge):
            ship(order, charge["id"])
        case Declined(code=code):
            ask_for_another_card(order, code)
        case Unknown():  # money may have moved
            call_again_later(order)  # with the same key

`AsyncHomeward` is the same for asyncio. `verify_webhook` verifies deliveries of events.
"""

from ._api import (
    Cancellation,
    Charge,
    ChargeList,
    ChargeNow,
    ChargeParams,
    Event,
    EventObject,
    KeyStatus,
    Problem,
    Refund,
    RefundList,
    RefundNow,
    RefundParams,
    Transfer,
    TransferNow,
    TransferParams,
)
from ._client import AsyncHomeward, Homeward
from ._keys import home_of, new_key
from ._outcome import Answer, Declined, HomewardError, Outcome, Retry, Succeeded, Unknown, WhyUnknown
from ._webhook import WebhookError, verify_webhook

__all__ = [
    "Answer",
    "AsyncHomeward",
    "Cancellation",
    "Charge",
    "ChargeList",
    "ChargeNow",
    "ChargeParams",
    "Declined",
    "Event",
    "EventObject",
    "Homeward",
    "HomewardError",
    "KeyStatus",
    "Outcome",
    "Problem",
    "Refund",
    "RefundList",
    "RefundNow",
    "RefundParams",
    "Retry",
    "Succeeded",
    "Transfer",
    "TransferNow",
    "TransferParams",
    "Unknown",
    "WebhookError",
    "WhyUnknown",
    "home_of",
    "new_key",
    "verify_webhook",
]
