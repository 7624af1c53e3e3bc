"""Two compiles side by side: read both, say what changed, judge it by rules."""

from __future__ import annotations

from hlo_lens.api.changes import Diff, diff
from hlo_lens.api.sides import read_snapshot_file, snapshot

__all__ = ["Diff", "diff", "read_snapshot_file", "snapshot"]
