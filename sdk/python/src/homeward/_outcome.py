"""What a call can end in."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Literal, TypeVar

from ._api import Problem

T = TypeVar("T")

Retry = Literal["same_key", "new_key", "never"]
"""What to do next. same_key: the same request again. new_key: this key is spent. never: correct the request."""

WhyUnknown = Literal["waiting", "no_answer", "in_progress", "given_up", "expired", "refused"]
"""Why an outcome is unknown.

- ``waiting``: the payment waits for its payer, a bank or its capture; ``object["status"]`` says which.
  The event, or a read of the object, has its outcome; a call with the same key tries again if it was refused for now.
- ``no_answer``: no region answered any attempt.
- ``in_progress``: the API has no outcome yet.
- ``given_up``: the provider never reported an outcome; the answer is final.
- ``expired``: the API has deleted the key's answer.
- ``refused``: the API refused a retry for another reason, after an attempt with a lost answer, or one
  that found the key in use.
"""


@dataclass(frozen=True)
class Answer:
    """What every outcome has."""

    idempotency_key: str
    """The key of the call."""
    attempts: int
    """How many requests the call took."""
    replayed: bool
    """The answer is that of an earlier request."""
    home_region: str | None
    """The key's home."""
    served_by: str | None
    """The region that answered."""
    expires_at: datetime | None
    """Until when retries read this answer."""


@dataclass(frozen=True)
class Succeeded(Answer, Generic[T]):
    """Yes: money moved, or the order to capture or cancel was carried out."""

    object: T
    raw: bytes
    """The body, the same bytes for every retry."""


@dataclass(frozen=True)
class Declined(Answer):
    """No: nothing moved under this key, or it was canceled, and what moved is refunded."""

    code: str | None
    """Why: ``insufficient_funds``. The list grows. None if the key was canceled."""
    detail: str
    """For a person."""
    retry: Retry
    """new_key: final for this key. same_key: a person may try again with the same key, not before
    retry_after. Do not put it into a loop: banks count attempts. cancel_key closes the key before another card
    pays: an attempt that was held up on its way would ask the bank again. never: correct the request."""
    retry_after: float
    """Seconds; 0 if the API did not say."""
    problem: Problem


@dataclass(frozen=True)
class Unknown(Answer, Generic[T]):
    """Not known: money may have moved. Never treat it as a failure."""

    why: WhyUnknown
    object: T | None
    """The payment that waits."""
    retry: Retry
    """same_key: call again, now or after a restart, with the same key and parameters."""
    retry_after: float
    """Seconds; 0 if the API did not say."""
    problem: Problem | None
    cause: Exception | None
    """The network's error, if no answer came."""


Outcome = Succeeded[T] | Declined | Unknown[T]
"""The result of a call that moves money. Match it: each case is a class of its own."""


class HomewardError(Exception):
    """The API refused the request before anything happened: it is wrong, or not allowed.

    This call moved no money, and knows of no other that did. A call that may have moved money never
    raises: see `Unknown`.
    Reads and `Homeward.cancel_key` raise it, too, if no region answered: ``status`` is 0 then.
    """

    def __init__(self, message: str, *, status: int, problem: Problem | None, retry: Retry, attempts: int) -> None:
        super().__init__(message)
        self.status = status
        """The HTTP status; 0 without an answer."""
        self.problem = problem
        """The API's problem; None if the API did not answer."""
        self.retry: Retry = retry
        self.attempts = attempts
        """How many requests were made."""
