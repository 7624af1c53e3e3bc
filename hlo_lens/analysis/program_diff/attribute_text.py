"""Attribute list split into parts of text: attributes, metadata, backend config."""

from __future__ import annotations

import re

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
