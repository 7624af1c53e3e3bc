"""An attribute list as text: cut into parts, without a look at what they mean."""

from __future__ import annotations

import re

_IRREGULAR = re.compile(r"[\"\n\r\t\f\\/]|  |= | ,")
"""What XLA does not print between an operand list and the metadata, but for strings."""

_METADATA = re.compile(
    r', metadata=(\{(?:[^"{}]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"|\{[^{}]*\})*+\})'
    r"(?=, backend_config=|$)"
)
METADATA_KEY = ", metadata={"
CONFIG_KEY = ", backend_config="
"""How the two parts of an attribute list start that stand behind all others."""

_STRING_OR_SPACE = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*+")|/\*.*?\*/|//[^\n]*|\s+', re.DOTALL)


def split_attributes(text: str) -> tuple[str | None, str, str | None]:
    """Return an attribute list before the metadata, the metadata, and the backend config.

    The first is None where the list is not as XLA prints it and needs to be read as a whole.
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
    """Return whether attributes before the metadata hold what XLA does not print there."""
    return _IRREGULAR.search(head) is not None or CONFIG_KEY in head


def quick_split(text: str) -> tuple[str | None, str, str | None]:
    """Return what `split_attributes` does, but that the first part may be irregular."""
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
    """Return a text without white space and comments, but for those in strings."""
    if " " not in text and "\n" not in text and "/" not in text and "\t" not in text:
        return text
    return _STRING_OR_SPACE.sub(lambda match: match[1] or "", text)
