"""Files that hold snapshots: how they begin, and how they are read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.load import read_source
from hlo_lens.load.files import DiskFile, head_of
from hlo_lens.questions.snapshots.reading import read_snapshot
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from hlo_lens.questions.snapshots.module_snapshot import Snapshot


def is_snapshot_file(path: str) -> bool:
    """Return whether a file begins like JSON with a kind; texts of XLA do not."""
    if not Path(path).is_file():
        return False
    head = head_of(DiskFile(path)).lstrip(b"\xef\xbb\xbf \t\r\n")
    return head.startswith(b"{") and (b'"kind"' in head or b'"schema_version"' in head)


def read_snapshot_file(path: str) -> Snapshot:
    """Return the snapshot in a file.

    Raises:
        UnreadableError: If it cannot be read.
        DumpSyntaxError: If it is no snapshot, damaged, or of a newer version.
    """
    try:
        data = json.loads(read_source(path).text, parse_constant=_finite, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise DumpSyntaxError(
            f"this begins like JSON, but is none: {error.msg}",
            path=path,
            line=error.lineno,
            column=error.colno,
        ) from error
    except RecursionError as error:
        raise DumpSyntaxError(
            "this begins like JSON, but is nested too deeply", path=path
        ) from error
    except ValueError as error:  # also from int(), of more digits than Python reads
        raise DumpSyntaxError(f"the snapshot is damaged: {error}", path=path) from error
    return read_snapshot(data, path)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number
