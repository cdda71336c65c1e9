# Made from internal/httpapi/openapi.json by generate.py. Do not edit.
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypedDict


class _TransferData(TypedDict, total=False):
    amount: int


class TransferData(_TransferData):
    """The connected account that gets the charge, or amount of it."""

    destination: str


class _ChargeParams(TypedDict, total=False):
    description: str
    """Free text. Card numbers are refused, or masked if the account's setting says so."""
    order_id: str
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""
    expires_at: str | datetime
    """Not payable from this time on."""
    provider: str
    """The payment provider, of the deployment's, that makes the payment. It is part of the request: a retry names the same. If it is absent, the account's routes or the default decide. The answer names the provider; a refund goes to the same one."""
    off_session: bool
    """Whether the payer is away. If not, the charge may wait for them to authenticate, and is answered 202."""
    customer: str
    """The provider's id of the payer who saved payment_method."""
    setup_future_usage: Literal["on_session", "off_session"]
    """Keeps the payment method for later."""
    statement_descriptor_suffix: str
    return_url: str
    """The address to which the payer returns. Needs off_session to be false."""
    account: str
    """The connected account that makes the charge, as Stripe-Account does at Stripe."""
    on_behalf_of: str
    """The connected account that is the merchant of record."""
    transfer_data: TransferData
    """The connected account that gets the charge, or amount of it."""
    application_fee_amount: int
    """The platform's part. Needs account or transfer_data."""
    capture_method: Literal["automatic", "manual"]
    """manual: the provider only holds the money, and the charge is answered 202 with the status requires_capture, until it is captured or canceled, or the hold lapses (at Stripe after some 7 days). If the provider cannot hold money, the charge is refused."""


class ChargeParams(_ChargeParams):
    """ChargeParams of the API."""

    amount: int
    """Minor units of the currency."""
    currency: str
    """ISO 4217, lower case."""
    payment_method: str
    """A token, never a card number."""


class _TransferParams(TypedDict, total=False):
    description: str
    """Free text. Card numbers are refused, or masked if the account's setting says so."""
    order_id: str
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""
    expires_at: str | datetime
    """Not payable from this time on."""
    provider: str
    """The payment provider, of the deployment's, that makes the payment. It is part of the request: a retry names the same. If it is absent, the account's routes or the default decide. The answer names the provider; a refund goes to the same one."""


class TransferParams(_TransferParams):
    """TransferParams of the API."""

    amount: int
    """Minor units of the currency."""
    currency: str
    """ISO 4217, lower case."""
    destination: str
    """The account that is paid."""


class _RefundParams(TypedDict, total=False):
    amount: int
    """Minor units of the charge's currency, at most the charge's amount. If absent, the whole charge."""
    reason: str
    """The merchant's own; the payer does not see it. Card numbers are refused, or masked if the account's setting says so."""
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""


class RefundParams(_RefundParams):
    """RefundParams of the API."""

    charge: str
    """The id of the charge."""


class Provider(TypedDict):
    """Provider of the API."""

    name: str
    reference: str


class _Charge(TypedDict, total=False):
    payment_method: str
    """Absent from a canceled charge that only its provider still has."""
    description: str
    """Free text. Card numbers are refused, or masked if the account's setting says so."""
    order_id: str
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""
    expires_at: str
    """Not payable from this time on."""
    off_session: bool
    """Whether the payer is away. If not, the charge may wait for them to authenticate, and is answered 202."""
    customer: str
    """The provider's id of the payer who saved payment_method."""
    setup_future_usage: Literal["on_session", "off_session"]
    """Keeps the payment method for later."""
    statement_descriptor_suffix: str
    return_url: str
    """The address to which the payer returns. Needs off_session to be false."""
    account: str
    """The connected account that makes the charge, as Stripe-Account does at Stripe."""
    on_behalf_of: str
    """The connected account that is the merchant of record."""
    transfer_data: TransferData
    """The connected account that gets the charge, or amount of it."""
    application_fee_amount: int
    """The platform's part. Needs account or transfer_data."""
    client_secret: str
    """While the status is requires_action: what the merchant's page needs for the payer to continue."""
    next_action: dict[str, Any]
    """While the status is requires_action: what the payer has to do, as the provider describes it."""
    capture_method: Literal["automatic", "manual"]
    """manual: the provider only holds the money, and the charge is answered 202 with the status requires_capture, until it is captured or canceled, or the hold lapses (at Stripe after some 7 days). If the provider cannot hold money, the charge is refused."""
    amount_capturable: int
    """While the status is requires_capture: how much is held."""
    amount_captured: int
    """Of a charge with capture_method manual that has succeeded: how much has moved."""


class Charge(_Charge):
    """Charge of the API."""

    id: str
    object: Literal["charge"]
    amount: int
    currency: str
    status: Literal["succeeded", "requires_action", "processing", "requires_capture", "canceled"]
    """If the charge has not succeeded, what it waits for: its payer, a bank, or its capture. Only the answer to a cancellation has canceled."""
    created: int
    """Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    receipt_number: str
    provider: Provider


class _Transfer(TypedDict, total=False):
    description: str
    """Free text. Card numbers are refused, or masked if the account's setting says so."""
    order_id: str
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""
    expires_at: str
    """Not payable from this time on."""


class Transfer(_Transfer):
    """Transfer of the API."""

    id: str
    object: Literal["transfer"]
    amount: int
    currency: str
    status: Literal["succeeded"]
    created: int
    """Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    destination: str
    receipt_number: str
    provider: Provider


class _Refund(TypedDict, total=False):
    reason: str
    metadata: dict[str, str]


class Refund(_Refund):
    """Refund of the API."""

    id: str
    object: Literal["refund"]
    amount: int
    currency: str
    status: Literal["succeeded", "processing"]
    """processing: the provider has accepted the refund and has not paid it out yet."""
    created: int
    """Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    charge: str
    receipt_number: str
    provider: Provider


class _RefundOfCharge(TypedDict, total=False):
    reason: Literal["made_at_provider"]
    """A person made it at the provider. It has no object of its own."""
    provider: Provider


class RefundOfCharge(_RefundOfCharge):
    """A refund in its charge or in a list, in flight or as the books have it. GET /v1/refunds/{id} shows what you sent with it, for as long as its claim is kept."""

    id: str
    object: Literal["refund"]
    amount: int
    currency: str
    status: Literal["succeeded", "processing", "failed"]
    """processing: it was begun, and its answer is still open; it has no provider yet. failed: the provider took it back after it had succeeded."""
    created: int
    """When it was booked; while it is in flight, when it was begun. Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    charge: str


class DisputeOfCharge(TypedDict):
    """DisputeOfCharge of the API."""

    id: str
    """That of the events of this dispute."""
    object: Literal["dispute"]
    amount: int
    currency: str
    status: Literal["open", "won", "lost"]
    created: int
    """When it was booked. Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    provider: Provider


class Compensation(TypedDict):
    """Money that the provider moved for a charge although nobody asked for it, or a second time. Homeward refunds it once."""

    object: Literal["compensation"]
    amount: int
    currency: str
    status: Literal["pending", "refunded", "failed"]
    """failed: the provider took the movement back."""
    created: int
    """When it was booked. Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    provider: Provider


class _ChargeNow(TypedDict, total=False):
    payment_method: str
    """Absent from a canceled charge that only its provider still has."""
    description: str
    """Free text. Card numbers are refused, or masked if the account's setting says so."""
    order_id: str
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""
    expires_at: str
    """Not payable from this time on."""
    receipt_number: str
    provider: Provider
    off_session: bool
    """Whether the payer is away. If not, the charge may wait for them to authenticate, and is answered 202."""
    customer: str
    """The provider's id of the payer who saved payment_method."""
    setup_future_usage: Literal["on_session", "off_session"]
    """Keeps the payment method for later."""
    statement_descriptor_suffix: str
    return_url: str
    """The address to which the payer returns. Needs off_session to be false."""
    account: str
    """The connected account that makes the charge, as Stripe-Account does at Stripe."""
    on_behalf_of: str
    """The connected account that is the merchant of record."""
    transfer_data: TransferData
    """The connected account that gets the charge, or amount of it."""
    application_fee_amount: int
    """The platform's part. Needs account or transfer_data."""
    client_secret: str
    """While the status is requires_action: what the merchant's page needs for the payer to continue."""
    next_action: dict[str, Any]
    """While the status is requires_action: what the payer has to do, as the provider describes it."""
    capture_method: Literal["automatic", "manual"]
    """manual: the provider only holds the money, and the charge is answered 202 with the status requires_capture, until it is captured or canceled, or the hold lapses (at Stripe after some 7 days). If the provider cannot hold money, the charge is refused."""
    amount_capturable: int
    """While the status is requires_capture: how much is held."""
    amount_captured: int
    """How much has moved; 0 if the charge has failed since. Absent while it waits."""
    amount_refunded: int
    """The sum of booked refunds that have not failed. Absent while the charge waits."""
    refunds: list[RefundOfCharge]
    """Those in flight, and then the booked ones, the latest first and at most 1000. Absent if there are none."""
    disputes: list[DisputeOfCharge]
    """The latest first. Absent if there are none."""
    compensations: list[Compensation]
    """Absent if there are none."""


class ChargeNow(_ChargeNow):
    """A charge as it is now. Once the claim is deleted, some two days after its first use, the answer is made from the books: it has order_id and metadata of what you sent, and no receipt_number."""

    id: str
    object: Literal["charge"]
    amount: int
    currency: str
    status: Literal["succeeded", "requires_action", "processing", "requires_capture", "failed"]
    """failed: the provider took the charge back after it had succeeded, or moved its money after it had been refused or given up (then compensations has what became of that)."""
    created: int
    """Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    as_of: int
    """The store's time of this read: what happened by then is in it. Unix time, in seconds."""


class TransferReversal(TypedDict):
    """TransferReversal of the API."""

    id: str
    object: Literal["transfer_reversal"]
    amount: int
    currency: str
    status: Literal["succeeded"]
    created: int
    livemode: bool
    """Whether money moves: false for what a test key made."""


class _TransferNow(TypedDict, total=False):
    destination: str
    description: str
    """Free text. Card numbers are refused, or masked if the account's setting says so."""
    order_id: str
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""
    expires_at: str
    """Not payable from this time on."""
    receipt_number: str
    provider: Provider
    amount_reversed: int
    """How much came back."""
    reversals: list[TransferReversal]
    """The latest first. Absent if there are none."""


class TransferNow(_TransferNow):
    """A transfer as it is now. Once the claim is deleted, some two days after its first use, the answer is made from the books: it has order_id and metadata of what you sent, and no receipt_number."""

    id: str
    object: Literal["transfer"]
    amount: int
    currency: str
    status: Literal["succeeded", "failed"]
    """failed: the provider took it back after it had succeeded."""
    created: int
    """Unix time, in seconds. Once the claim is deleted: when it was booked."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    as_of: int
    """The store's time of this read: what happened by then is in it. Unix time, in seconds."""


class _RefundNow(TypedDict, total=False):
    charge: str
    reason: str
    receipt_number: str
    provider: Provider
    metadata: dict[str, str]


class RefundNow(_RefundNow):
    """A refund as it is now. Once the claim is deleted, some two days after its first use, the answer is made from the books: what you sent, and receipt_number, are absent then."""

    id: str
    object: Literal["refund"]
    amount: int
    currency: str
    status: Literal["succeeded", "processing", "failed"]
    """failed: the provider took it back after it had succeeded, and the money is owed again."""
    created: int
    """Unix time, in seconds. Once the claim is deleted: when it was booked."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    as_of: int
    """The store's time of this read: what happened by then is in it. Unix time, in seconds."""


class RefundList(TypedDict):
    """RefundList of the API."""

    object: Literal["list"]
    data: list[RefundOfCharge]
    has_more: bool
    """There are more in the direction that was asked for."""
    url: str


class _ListedCharge(TypedDict, total=False):
    order_id: str
    metadata: dict[str, str]
    """Card numbers are refused, or masked if the account's setting says so. Digits alone are a card number only if the name says so (card, pan, card_number). A text with letters and no white space is an identifier."""
    disputes: list[DisputeOfCharge]
    """The latest first. Absent if there are none."""
    compensations: list[Compensation]
    """Absent if there are none."""
    livemode: bool
    """Whether money moves: false for what a test key made."""


class ListedCharge(_ListedCharge):
    """A charge in a list, as the books have it. GET /v1/charges/{id} shows its refunds, and what else you sent with it, for as long as its claim is kept."""

    id: str
    object: Literal["charge"]
    amount: int
    """What moved."""
    currency: str
    status: Literal["succeeded", "failed"]
    """failed: the provider took the charge back after it had succeeded."""
    created: int
    """Unix time, in seconds."""
    provider: Provider
    amount_captured: int
    """How much has moved; 0 if the charge has failed since. Absent while it waits."""
    amount_refunded: int
    """The sum of booked refunds that have not failed. Absent while the charge waits."""


class ChargeList(TypedDict):
    """ChargeList of the API."""

    object: Literal["list"]
    data: list[ListedCharge]
    has_more: bool
    """There are more in the direction that was asked for."""
    url: str


class _KeyEvent(TypedDict, total=False):
    detail: str


class KeyEvent(_KeyEvent):
    """KeyEvent of the API."""

    at: str
    event: str
    """What happened. New kinds may be added."""
    region: str
    fence: int


class KeyStatus(TypedDict):
    """KeyStatus of the API."""

    key: str
    state: Literal["IN_FLIGHT", "COMPLETED", "FAILED_TERMINAL", "FAILED_RETRY", "EXPIRED"]
    """IN_FLIGHT: no final answer yet; send the same request again to learn it. COMPLETED: done, a retry replays the answer. FAILED_TERMINAL: refused for good, a retry replays the refusal. FAILED_RETRY: refused for now, no money moved; the same request under the same key tries again. EXPIRED: a retry gets 410 until free_at."""
    home_region: str
    attempts: int
    first_used_at: str
    expires_at: str
    """Until then a retry replays the answer; from then on it gets 410. As long as the state is IN_FLIGHT, it moves on."""
    free_at: str
    """From then on the key is new: a request under it is executed. Never before the state is final or FAILED_RETRY."""
    object: str
    timeline: list[KeyEvent]


class _Cancellation(TypedDict, total=False):
    charge: str
    """The id of the key's charge, if it is a charge's."""
    refund: str
    """The id of the refund that the cancellation made, once there is one."""


class Cancellation(_Cancellation):
    """Cancellation of the API."""

    object: Literal["cancellation"]
    idempotency_key: str
    """The key that was given up, in its normal form."""
    outcome: str
    """unused: the key was never used, and refuses whatever arrives. not_made: no money moved. refunded: money moved, and the provider has the refund of all that was left. refund_pending: that is not certain yet. unknown: it is not known yet whether money moved."""


class _Problem(TypedDict, total=False):
    retry_after_ms: int
    """When a retry becomes useful, in milliseconds."""
    original_request_at: str
    member: str
    code: str
    """Why a payment was declined, or a refund refused. New codes may be added."""


class Problem(_Problem):
    """Problem of the API."""

    type: str
    """The page that explains the error to people: /errors/NAME of the node, or the deployment's own. A stored answer keeps its first one. Programs use error instead."""
    title: str
    status: int
    detail: str
    error: str
    """The error's name, for programs. New names may be added: treat an unknown one by its retry."""
    retry: Literal["same_key", "new_key", "never"]
    """same_key: sending the same request again is safe and useful. new_key: this key is spent and its answer will not change; a new attempt needs a new key. After idempotency_key_expired first find out what became of the original, which may have moved money. never: correct the request."""


class Evidence(TypedDict):
    """Of a dispute: until when it can be answered, if the provider says so."""

    due_by: int
    """Unix time, in seconds."""


class ReversalOfTransfer(TypedDict):
    """Of transfer.reversed: how much of the transfer came back."""

    id: str
    object: Literal["transfer_reversal"]
    amount: int


class _EventObject(TypedDict, total=False):
    code: str
    """Why no money moved, or why it went back. New codes may be added."""
    amount: int
    """Minor units. Of a dispute: what is disputed, withdrawn or reinstated."""
    currency: str
    created: int
    """Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    charge: str
    """Of a refund or a dispute: its charge."""
    destination: str
    payment_method: str
    description: str
    order_id: str
    """Of a refund or a dispute: that of its charge."""
    metadata: dict[str, str]
    """Of a refund without its own, or a dispute: that of its charge."""
    expires_at: str
    reason: str
    """Of a refund: as sent with it, or made_at_provider. Of a dispute: the provider's code. New reasons may be added."""
    receipt_number: str
    capture_method: str
    amount_captured: int
    """Of a charge with capture_method manual that has succeeded: how much has moved."""
    amount_capturable: int
    """While the status is requires_capture: how much is held."""
    provider: Provider
    evidence_details: Evidence
    """Of a dispute: until when it can be answered, if the provider says so."""
    reversal: ReversalOfTransfer
    """Of transfer.reversed: how much of the transfer came back."""


class EventObject(_EventObject):
    """The object as it was when the event was made; the API's own answer is newer. A charge, a transfer or a refund: whole if money moved, else with the members that Homeward has. Of charge.dispute.*: a dispute. A refund made at the provider, and a dispute, have ids that cannot be read; the charge lists both."""

    id: str
    object: Literal["charge", "transfer", "refund", "dispute"]
    status: str
    """Of an outcome: the second half of the event's type. failed may follow succeeded: the money went back since. Of a dispute: needs_response, won, lost, or the provider's own. New statuses may be added."""


class Event(TypedDict):
    """An event, delivered at least once: a repetition has the same id and the same bytes. New members may be added."""

    id: str
    """The same for every repetition, and the header webhook-id. Store it, and act once."""
    type: str
    """The object's kind and its outcome, or what the provider did unasked: refund.created is a refund made at the provider. New types may be added: answer 2xx to an unknown one."""
    created: int
    """Unix time, in seconds."""
    livemode: bool
    """Whether money moves: false for what a test key made."""
    data: EventObject
