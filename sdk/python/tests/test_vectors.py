"""The vectors of every client, ../../vectors.json."""

from __future__ import annotations

import json
import unittest
from pathlib import Path
from typing import Any

from homeward import WebhookError, home_of, new_key, verify_webhook
from homeward._keys import _stamp

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "vectors.json").read_text(encoding="utf-8"))


class Keys(unittest.TestCase):
    """Stamped keys."""

    def test_stamps(self) -> None:
        """Each client makes and reads the same ones."""
        for v in VECTORS["stamps"]:
            self.assertEqual(_stamp(v["home"], bytes.fromhex(v["random"])), v["key"])
            self.assertEqual((home_of(v["key"]), home_of(v["object"])), (v["home"], v["home"]))

    def test_homeless(self) -> None:
        """Any other text has no home."""
        for v in VECTORS["homeless"]:
            with self.subTest(v["name"]):
                self.assertIsNone(home_of(v["text"]))

    def test_new_keys(self) -> None:
        """Keys have the home that was asked for, and differ."""
        self.assertEqual(home_of(new_key(5)), 5)
        self.assertIsNone(home_of(new_key()))
        self.assertNotEqual(new_key(5), new_key(5))
        for home in (-1, 65536):
            self.assertRaises(ValueError, new_key, home)


class Webhooks(unittest.TestCase):
    """Deliveries."""

    def test_deliveries(self) -> None:
        """What is signed, in time and whole is accepted, and nothing else."""
        for v in VECTORS["webhooks"]:
            options = {name: v[name] for name in ("now", "tolerance") if name in v}
            for body in (v["body"], v["body"].encode()):
                with self.subTest(v["name"]):
                    if "refused" in v:
                        with self.assertRaisesRegex(WebhookError, v["refused"]):
                            verify_webhook(body, v["headers"], v["secrets"], **options)
                    else:
                        event = verify_webhook(body, v["headers"], v["secrets"], **options)
                        self.assertEqual(event["data"]["id"], "ch_1")

    def test_secrets(self) -> None:
        """One secret is enough, and a wrong one is the caller's mistake."""
        v = VECTORS["webhooks"][0]
        self.assertEqual(
            verify_webhook(v["body"], v["headers"], v["secrets"][0], now=v["now"])["type"], "charge.succeeded"
        )
        for secret, says in (("whsec_", "is empty"), ("whsec_é", "not base64"), ("not base64", "not base64")):
            with self.assertRaisesRegex(ValueError, says):
                verify_webhook(v["body"], v["headers"], secret)
