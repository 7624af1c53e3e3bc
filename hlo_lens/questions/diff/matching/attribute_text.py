"""Attribute lists: the parts of their text, and meanings of values, equal for equal meanings."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hlo_lens.shapes.named_sharding import ShardingKind
from hlo_lens.text.errors import DumpSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Set

    from hlo_lens.hlo.text_reader import HloReader
    from hlo_lens.shapes.sharding import HloSharding

_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")
_IRREGULAR = re.compile(r"[\"\n\r\t\f\\/]|  |= | ,")
"""Text that XLA never prints between an operand list and the metadata, except in strings."""

_METADATA = re.compile(
    r', metadata=(\{(?:[^"{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{[^{}]*\})*+\})'
    r"(?=, backend_config=|$)"
)
METADATA_KEY = ", metadata={"
CONFIG_KEY = ", backend_config="
"""Starts of the two last parts of an attribute list."""

_STRING_OR_SPACE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|/\*.*?\*/|//[^\n]*|\s+', re.DOTALL)


def split_attributes(text: str) -> tuple[str | None, str, str | None]:
    """Return the attributes before the metadata, the metadata, and the backend config.

    The first is None if the list is not as XLA prints it and must be parsed as a whole.
    """
    end = text.find(METADATA_KEY)
    if end < 0:
        end = text.find(CONFIG_KEY)
        if end < 0:
            return (None if _IRREGULAR.search(text) else text), "", None
    head = text[:end]
    if is_irregular(head):
        return None, "", None
    metadata, after = "", end
    match = _METADATA.match(text, end)
    if match is not None:
        metadata, after = match[1], match.end()
    if after == len(text):
        return head, metadata, None
    config = text[after + len(CONFIG_KEY) :]
    if text.startswith(CONFIG_KEY, after) and config.startswith(("{", '"')):
        return head, metadata, config
    return None, "", None


def is_irregular(head: str) -> bool:
    """Return whether the text before the metadata contains what XLA does not print there."""
    return _IRREGULAR.search(head) is not None or CONFIG_KEY in head


def quick_split(text: str) -> tuple[str | None, str, str | None]:
    """Return the parts as `split_attributes` does; the first part may be irregular."""
    end = text.find(METADATA_KEY)
    if end >= 0 and '"' not in (head := text[:end]):
        close = text.find("}", end) + 1
        if close == len(text):
            return head, text[end + len(METADATA_KEY) - 1 :], None
        config = close + len(CONFIG_KEY)
        if text.startswith(CONFIG_KEY, close) and text.startswith(("{", '"'), config):
            return head, text[end + len(METADATA_KEY) - 1 : close], text[config:]
    return split_attributes(text)


def squeezed(text: str) -> str:
    """Return a text without white space and comments outside strings."""
    if " " not in text and "\n" not in text and "/" not in text and "\t" not in text:
        return text
    return _STRING_OR_SPACE.sub(lambda match: match[1] or "", text)


def config_meaning(
    text: str, reader: HloReader, left_out: Set[str] = frozenset()
) -> tuple[object, str]:
    """Return a parsed configuration, and a text that is equal for equal ones.

    A string that is not JSON (base64, flags of a backend) is compared as text.

    Args:
        text: The configuration as written.
        reader: Reader of its module.
        left_out: Fields of a JSON object that do not count.
    """
    written = text.strip()
    plain = reader.string(written)
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        value = None
    if left_out and isinstance(value, dict):
        value = {name: one for name, one in value.items() if name not in left_out}
    if isinstance(value, dict | list):
        return value, json.dumps(_without_ids(value), sort_keys=True)
    return plain, plain if written.startswith('"') else squeezed(plain)


def _without_ids(value: object) -> object:
    """Return a configuration without the ids of barriers, which are assigned like channels.

    Source: libtpu 0.0.42 to 0.0.51 print ``"barrier_config":{"barrier_type":"CUSTOM","id":"3"}``.
    """
    if isinstance(value, dict) and isinstance(value.get("barrier_config"), dict):
        barrier = {k: v for k, v in value["barrier_config"].items() if k != "id"}
        return {**value, "barrier_config": barrier}
    return value


def _sharding(value: str, reader: HloReader) -> Hashable:
    return _sharding_key(reader.sharding(value))


def _sharding_key(sharding: HloSharding) -> Hashable:
    if sharding.elements:
        return tuple(_sharding_key(element) for element in sharding.elements)
    if sharding.kind is ShardingKind.UNKNOWN:  # of a form that is kept as text, too
        return sharding.text
    meaning = (
        tuple(sorted(part.items())) if isinstance(part, dict) else part
        for part in sharding.meaning()
    )
    return (*meaning, sharding.shard_group)


def _device_list(value: str, reader: HloReader) -> Hashable:
    try:
        return reader.device_list(value).flattened_replica_groups()
    except DumpSyntaxError:  # of a form that is kept as text
        return value


def _pairs(value: str, reader: HloReader) -> Hashable:
    del reader
    return tuple(sorted((int(a), int(b)) for a, b in _PAIR.findall(value)))


def _frontend(value: str, reader: HloReader) -> Hashable:
    return frozenset(reader.frontend_attributes(value).items())


MEANINGS: Mapping[str, Callable[[str, HloReader], Hashable]] = {
    "sharding": _sharding,
    "replica_groups": _device_list,
    "source_target_pairs": _pairs,
    "frontend_attributes": _frontend,
}
"""Attribute name to the reader of its values; all others count as written."""
