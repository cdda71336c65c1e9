"""Deliveries of events."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, cast

from ._api import Event


class WebhookError(Exception):
    """The delivery is not ours, too old, or changed on the way. Answer 400 and do nothing."""


class Headers(Protocol):
    """The headers of a request in any framework: what has names and values."""

    def items(self) -> Iterable[tuple[str, str]]:
        """Return them."""


def verify_webhook(
    body: bytes | str,
    headers: Headers,
    secrets: str | Sequence[str],
    *,
    tolerance: float = 300.0,
    now: float | None = None,
) -> Event:
    """Verify a delivery as in Standard Webhooks, and return its event.

        event = verify_webhook(request.get_data(), request.headers, os.environ["WEBHOOK_SECRET"])

    body is the raw body: JSON that was parsed and serialised again has another signature. secrets are
    ``whsec_…``; pass both while one replaces the other. tolerance is how far the time of the delivery may
    be from now, in seconds. Homeward repeats deliveries: store ``event["id"]``, and act once.

    It raises `WebhookError` if the delivery is wrong, and ValueError if a secret is.
    """
    keys = [_key(secret) for secret in ([secrets] if isinstance(secrets, str) else secrets)]
    raw = body.encode() if isinstance(body, str) else body
    sent = {name.lower(): value for name, value in headers.items()}
    delivery, timestamp, signatures = (_header(sent, f"webhook-{name}") for name in ("id", "timestamp", "signature"))
    if not re.fullmatch("[0-9]{1,12}", timestamp):
        raise WebhookError("homeward: webhook-timestamp is not a Unix time")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise WebhookError("homeward: the delivery is too old or too new; it may be replayed")
    signed = f"{delivery}.{timestamp}.".encode() + raw
    expected = [hmac.new(key, signed, hashlib.sha256).digest() for key in keys]
    found = [_decoded(s[3:]) for s in signatures.split(" ") if s.startswith("v1,")]
    if not any(hmac.compare_digest(s, e) for s in found for e in expected):
        raise WebhookError("homeward: no signature matches; is the body raw, and the secret this endpoint's?")
    try:
        event = json.loads(raw)
    except ValueError as cause:
        raise WebhookError("homeward: the body is not JSON") from cause
    if not isinstance(event, dict) or event.get("id") != delivery:
        raise WebhookError("homeward: the event has another id than its delivery")
    return cast(Event, event)


def _header(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise WebhookError(f"homeward: the header {name} is missing")
    return value


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError as cause:
        raise ValueError("homeward: the webhook secret is not base64; it looks like whsec_…") from cause
    if not key:
        raise ValueError("homeward: the webhook secret is empty; it looks like whsec_…")
    return key
