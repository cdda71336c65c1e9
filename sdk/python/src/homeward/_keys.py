"""Idempotency keys and their homes."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import uuid

_LABEL = b"homeward/stamp/v1"


def new_key(home: int = 0) -> str:
    """Make an idempotency key. Store it before the call.

    With home, a region's code that Homeward's operator has, the key carries its home (it is stamped),
    which saves its first use a look-up. ``new_key(home_of(charge["id"]) or 0)`` is at the home of a
    charge, as a refund of it should be. Without home, the region of the first use becomes the home.
    """
    if home == 0:
        return str(uuid.uuid4())
    return _stamp(home, secrets.token_bytes(10))


def home_of(text: str) -> int | None:
    """Return the code of the home region in a stamped key or an object's id, or None."""
    if re.fullmatch("[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", text):
        return _read(bytes.fromhex(text.replace("-", "")))
    if re.fullmatch("[a-z]{1,8}_[0-9a-v]{26}", text):
        encoded = text[-26:]
        bits = base64.b32hexdecode(encoded.upper() + "======")
        if base64.b32hexencode(bits).decode().lower().rstrip("=") == encoded:  # one spelling per id
            return _read(bits)
    return None


def _stamp(home: int, random: bytes) -> str:
    """Make the stamped key of these ten random bytes."""
    if not 1 <= home <= 65535:
        raise ValueError("homeward: a region's code is 1 to 65535")
    bits = bytearray(random + home.to_bytes(2, "big"))
    bits[6] = bits[6] & 0x0F | 0x80  # version 8
    bits[8] = bits[8] & 0x3F | 0x80  # variant 10
    return str(uuid.UUID(bytes=bytes(bits) + _check(bytes(bits))))


def _read(bits: bytes) -> int | None:
    code = int.from_bytes(bits[10:12], "big")
    if code == 0 or bits[6] >> 4 != 8 or bits[8] >> 6 != 0b10 or bits[12:] != _check(bits[:12]):
        return None
    return code


def _check(bits: bytes) -> bytes:
    return hashlib.sha256(_LABEL + bits).digest()[:4]
