"""Values of attributes in protos, as XLA prints them: strings, frontend attributes, aliases.

Mirrors xla/hlo/ir/hlo_instruction.cc (FrontendAttributesToString, PrintExtraAttributes) and
absl::CEscape, as of August 2026.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hlo_lens.syntax.proto.values import numbers, words

if TYPE_CHECKING:
    from collections.abc import Iterable

_ESCAPES = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}


def quoted(data: bytes) -> str:
    """Return a string field in quotes, escaped as absl::CEscape does."""
    if data.isascii() and not re.search(rb"[\x00-\x1f\x7f\"'\\]", data):
        return f'"{data.decode("ascii")}"'
    return '"' + "".join(_escaped(byte) for byte in data) + '"'


def _escaped(byte: int) -> str:
    if byte in _ESCAPES:
        return _ESCAPES[byte]
    return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"


def frontend_text(pairs: Iterable[Any]) -> str:
    """Return frontend attributes, sorted; a value that is an object is not quoted."""
    listed = sorted((words(pair.key), pair.value) for pair in pairs)
    texts = (f"{key}={_frontend_value(value)}" for key, value in listed)
    return f"{{{','.join(texts)}}}"


def _frontend_value(value: bytes) -> str:
    return words(value) if _is_object(value) else quoted(value)


_BRACES_AND_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}]', re.DOTALL)


def _is_object(value: bytes) -> bool:
    """Return whether a value is one pair of braces."""
    if value[:1] != b"{" or value[-1:] != b"}":
        return False
    depth = 0
    for match in _BRACES_AND_STRINGS.finditer(value):
        depth += {b"{": 1, b"}": -1}.get(match[0], 0)
        if depth == 0:
            return match.end() == len(value)
    return False


def index_text(index: Iterable[int]) -> str:
    """Return a shape index."""
    return numbers(index)


def aliasing_text(entries: Iterable[Any]) -> str:
    """Return the operands whose memory the results of a call share."""
    texts = (
        f"{index_text(entry.output_shape_index)}: "
        f"({entry.operand_index}, {index_text(entry.operand_shape_index)})"
        for entry in entries
    )
    return f"{{{', '.join(texts)}}}"


def statistics_text(found: Any) -> str:
    """Return the statistics for viewers."""
    listed = (f"{words(one.stat_name)}={one.stat_val:g}" for one in found.statistics)
    return f"{{visualizing_index={found.stat_index_to_visualize},{','.join(listed)}}}"


def accuracy_text(accuracy: Any) -> str:
    """Return the required accuracy of a result; empty for the default."""
    if accuracy.HasField("tolerance"):
        found = accuracy.tolerance
        return f"{{tolerance={{atol={found.atol:g},rtol={found.rtol:g},ulps={found.ulps}}}}}"
    return "{mode=highest}" if accuracy.mode == 1 else ""
