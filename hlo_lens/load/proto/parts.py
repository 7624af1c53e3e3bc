"""Parts of instructions in protos that a module repeats: names, shapes, shardings, metadata.

Mirrors xla/hlo/ir/hlo_op_metadata.cc (OpMetadataToString), as of August 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from hlo_lens.load.proto.values import ShapePrinter, numbers, sharding_text, words

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
    texts = (f"{key}={words(v) if _is_object(v) else quoted(v)}" for key, v in listed)
    return f"{{{','.join(texts)}}}"


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


def aliasing_text(entries: Iterable[Any]) -> str:
    """Return the operands whose memory the results of a call share."""
    texts = (
        f"{numbers(entry.output_shape_index)}: "
        f"({entry.operand_index}, {numbers(entry.operand_shape_index)})"
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


class Names:
    """Names of a module's instructions and computations by id, and its table of payloads."""

    def __init__(self, module: Any) -> None:
        self.computations = {c.id: c for c in module.computations}
        self.instructions = {
            i.id: words(i.name) for c in module.computations for i in c.instructions
        }
        self.payloads: Sequence[bytes] = module.payloads

    def computation(self, number: int) -> str:
        """Return the name of a computation; raises ValueError if there is none."""
        found = self.computations.get(number)
        if found is None:
            raise ValueError(f"computation {number} is called, but missing")
        return words(found.name)

    def instruction(self, number: int) -> str:
        """Return the name of an instruction; raises ValueError if there is none."""
        found = self.instructions.get(number)
        if found is None:
            raise ValueError(f"instruction {number} is an operand, but missing")
        return found

    def payload(self, message: Any) -> bytes:
        """Return the bytes of a payload, from the message or from the module's table."""
        if message.value:
            return bytes(message.value)
        return self.payloads[message.id - 1] if 0 < message.id <= len(self.payloads) else b""


class PartPrinter:
    """Prints the parts that many instructions of one module share, each distinct part once.

    Args:
        module: A HloModuleProto.
    """

    def __init__(self, module: Any) -> None:
        self.names = Names(module)
        self.shapes = ShapePrinter()
        self._metadata: dict[bytes, str] = {}
        self._shardings: dict[bytes, str] = {}
        self._configs: dict[bytes, str] = {}

    def sharding(self, sharding: Any) -> str:
        """Return an OpSharding, braces included."""
        key = sharding.SerializeToString(deterministic=True)
        if key not in self._shardings:
            self._shardings[key] = sharding_text(sharding, self.metadata)
        return self._shardings[key]

    def metadata(self, metadata: Any) -> str:
        """Return an OpMetadata, without braces; empty if no field of it is printed."""
        key = metadata.SerializeToString(deterministic=True)
        if key not in self._metadata:
            self._metadata[key] = self._metadata_text(metadata)
        return self._metadata[key]

    def _metadata_text(self, metadata: Any) -> str:
        payload = self.names.payload(metadata.metadata_payload)
        parts = [
            f"{name}={quoted(getattr(metadata, name))}"
            for name in ("op_type", "op_name", "source_file")
            if getattr(metadata, name)
        ]
        places = ("source_line", "source_end_line", "source_column", "source_end_column")
        parts += [f"{name}={n}" for name in places if (n := getattr(metadata, name))]
        if metadata.deduplicated_name and parts:
            parts.append(f"deduplicated_name={quoted(metadata.deduplicated_name)}")
        if metadata.scheduling_name:
            parts.append(f'scheduling_name="{words(metadata.scheduling_name)}"')
        if metadata.stack_frame_id:
            parts.append(f"stack_frame_id={metadata.stack_frame_id}")
        if payload:
            parts.append(f"metadata_payload={quoted(payload)}")
        return " ".join(parts)

    def config(self, data: bytes) -> str:
        """Return a backend config: unchanged if it is an object, else in quotes."""
        if data not in self._configs:
            is_object = data[:1] == b"{" and data.rstrip()[-1:] == b"}"
            self._configs[data] = words(data) if is_object else quoted(data)
        return self._configs[data]
