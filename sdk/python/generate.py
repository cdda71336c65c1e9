"""Write src/homeward/_api.py from the OpenAPI document: python3 generate.py.

With a path as the argument it writes that file instead. A list that grows (x-extensible-enum)
becomes a plain string.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DOCUMENT = HERE / "../../internal/httpapi/openapi.json"

# Requests become the keyword arguments of methods; the rest is what they return.
PARAMS = {"ChargeRequest": "ChargeParams", "TransferRequest": "TransferParams", "RefundRequest": "RefundParams"}
OBJECTS = [
    "Charge",
    "Transfer",
    "Refund",
    "ChargeNow",
    "TransferNow",
    "RefundNow",
    "RefundList",
    "ChargeList",
    "KeyStatus",
    "Cancellation",
    "Problem",
    "Event",
]
# HTTP libraries add these, and the API ignores them. amount_units is for callers of Stripe's API.
UNSENT = {"client_ts", "request_id", "sent_at", "trace_id", "amount_units"}
# Types of an object within an object.
NESTED = {
    "provider": "Provider",
    "transfer_data": "TransferData",
    "timeline": "KeyEvent",
    "reversals": "TransferReversal",
    "reversal": "ReversalOfTransfer",
    "evidence_details": "Evidence",
}

Schema = dict[str, Any]


class Writer:
    """Collects the classes, each after those that it refers to."""

    def __init__(self, schemas: dict[str, Schema]) -> None:
        self.schemas = schemas
        self.done: dict[str, Schema] = {}
        self.out: list[str] = []

    def named(self, name: str, schema: Schema, *, sent: bool = False) -> str:
        """Write the class of an object, if it is not there, and return its name."""
        if name in self.done:
            if self.done[name] != schema:
                sys.exit(f"{name} has two shapes: name one in NESTED")
            return name
        self.done[name] = schema
        required = set(schema.get("required", []))
        members = [(m, s) for m, s in schema.get("properties", {}).items() if not (sent and m in UNSENT)]
        must = [self.member(m, s, sent) for m, s in members if m in required]
        may = [self.member(m, s, sent) for m, s in members if m not in required]
        doc = schema.get("description") or f"{name} of the API."
        doc = '    """' + doc.replace("\\", "\\\\") + '"""\n'
        if must and may:
            self.out.append(f"class _{name}(TypedDict, total=False):\n{''.join(may)}")
            self.out.append(f"class {name}(_{name}):\n{doc}\n{''.join(must)}")
        else:
            total = "" if must else ", total=False"
            self.out.append(f"class {name}(TypedDict{total}):\n{doc}\n{''.join(must or may)}")
        return name

    def member(self, name: str, schema: Schema, sent: bool) -> str:
        """Return the line of a member, and its description."""
        line = f"    {name}: {self.type(name, schema, sent)}\n"
        if what := schema.get("description"):
            line += '    """' + what.replace("\\", "\\\\") + '"""\n'
        return line

    def type(self, name: str, schema: Schema, sent: bool) -> str:
        """Return the type of a member, and write the classes that it needs."""
        if ref := schema.get("$ref"):
            to = ref.rsplit("/", 1)[1]
            return self.named(to, self.schemas[to])
        if "const" in schema:
            return f"Literal[{schema['const']!r}]".replace("'", '"')
        if "enum" in schema:
            return f"Literal[{', '.join(map(repr, schema['enum']))}]".replace("'", '"')
        match schema.get("type"):
            case "string":
                return "str | datetime" if sent and schema.get("format") == "date-time" else "str"
            case "integer":
                return "int"
            case "boolean":
                return "bool"
            case "array":
                return f"list[{self.type(name, schema['items'], sent)}]"
            case "object" if "properties" in schema:
                return self.named(NESTED[name], schema)
            case "object":
                values = schema.get("additionalProperties")
                return f"dict[str, {self.type(name, values, sent) if isinstance(values, dict) else 'Any'}]"
        sys.exit(f"{name}: {schema} has no type in Python here")


def generate() -> str:
    """Return the text of the module."""
    schemas = json.loads(DOCUMENT.read_text(encoding="utf-8"))["components"]["schemas"]
    w = Writer(schemas)
    for schema, name in PARAMS.items():
        w.named(name, schemas[schema], sent=True)
    for name in OBJECTS:
        w.named(name, schemas[name])
    head = (
        "# Made from internal/httpapi/openapi.json by generate.py. Do not edit.\n"
        "from __future__ import annotations\n\n"
        "from datetime import datetime\n"
        "from typing import Any, Literal, TypedDict\n\n\n"
    )
    return head + "\n\n".join(w.out)


if __name__ == "__main__":
    to = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "src/homeward/_api.py"
    to.write_text(generate(), encoding="utf-8")
