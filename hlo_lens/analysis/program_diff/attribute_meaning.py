"""Meanings of attribute values: equal for values that mean the same."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hlo_lens.analysis.program_diff.attribute_text import squeezed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from hlo_lens.model.shapes.sharding import HloSharding
    from hlo_lens.model.text_reader import HloReader

_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")


def config_meaning(text: str, reader: HloReader) -> tuple[object, str]:
    """Return a parsed configuration, and a text that is equal for equal ones.

    A string that is not JSON (base64, flags of a backend) is compared as text.
    """
    written = text.strip()
    plain = reader.string(written)
    try:
        value = json.loads(plain)
    except (ValueError, RecursionError):
        value = None
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
    meaning = (
        tuple(sorted(part.items())) if isinstance(part, dict) else part
        for part in sharding.meaning()
    )
    return (*meaning, sharding.shard_group)


def _device_list(value: str, reader: HloReader) -> Hashable:
    return reader.device_list(value).flattened_replica_groups()


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
