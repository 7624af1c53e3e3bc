"""Pairs of one compile: the text that XLA dumped, and the proto."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = sorted(SAMPLES.rglob("*.hlo.pb.gz"))
"""Protos of our samples; the text of each is in the same folder."""


def text_beside(proto: Path) -> Path:
    """Return the HLO text of the same compile."""
    return proto.with_name(proto.name.removesuffix(".hlo.pb.gz") + ".txt")


def unpacked(proto: Path) -> bytes:
    """Return the bytes of a proto."""
    return gzip.decompress(proto.read_bytes())
