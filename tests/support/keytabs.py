"""Keytabs with made-up keys, for KDCs that never look at them."""

from __future__ import annotations

import struct
from pathlib import Path


def keytab_of(client: str, file: Path) -> str:
    """A keytab of version 2 with one made-up key."""
    name, _, realm = client.partition("@")
    parts = [text.encode() for text in (realm, *name.split("/"))]
    entry = struct.pack(">H", len(parts) - 1)
    entry += b"".join(struct.pack(">H", len(part)) + part for part in parts)
    entry += struct.pack(">IIBHH", 1, 0, 1, 18, 32) + b"k" * 32
    file.write_bytes(b"\x05\x02" + struct.pack(">i", len(entry)) + entry)
    return str(file)
