"""Differences of the metadata of two partners: names, frame numbers, or content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.analysis.program_diff.edits import Noise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hlo_lens.model.hlo.module import HloModule

Found: TypeAlias = tuple[Noise, str, "str | None", "str | None"]
"""A kind of noise, the property that differs, and its values in base and head."""

_FRAME_NUMBER = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_FRAME = re.compile(r"\s*stack_frame_id=\d+")
_NAMES = re.compile(r'\s*(?:scheduling_name|deduplicated_name)="[^"\\]*+(?:\\.[^"\\]*+)*+"')
_DEDUPLICATED = "deduplicated_name="
_SCHEDULING = 'scheduling_name="'
_FRAME_KEY = "stack_frame_id="
_LONGEST_NUMBER = 9


class MetadataNoise:
    """Comparison of metadata; call stacks are compared once per pair of frames."""

    def __init__(self, base: HloModule, head: HloModule) -> None:
        self._base = base
        self._head = head
        self._same_stack: dict[tuple[str, str], bool] = {}
        self._places: dict[str, Found | None] = {}

    def found(self, mine: str, yours: str) -> Found:
        """Return the kind of noise of two different ``metadata`` values."""
        before, after = without_names(mine), without_names(yours)
        if before == after:
            return Noise.NAMES, "scheduling_name", mine or None, yours or None
        frames = self._frames_alone(before, after)
        if frames is not None and self._is_same_stack(frames):
            return Noise.STACK_FRAMES, "stack_frame_id", *frames
        return Noise.METADATA, "metadata", mine or None, yours or None

    def frames(self, text: str) -> Iterator[Found]:
        """Yield noise if one frame number is two places in modules with different tables."""
        number = _FRAME_NUMBER.search(text)
        if number is None:
            return
        if number[1] not in self._places:
            frame = int(number[1])
            before, after = (m.stack_frames.location(frame) for m in (self._base, self._head))
            self._places[number[1]] = (
                None if before == after else (Noise.METADATA, "source", str(before), str(after))
            )
        found = self._places[number[1]]
        if found is not None:
            yield found

    def _frames_alone(self, before: str, after: str) -> tuple[str, str] | None:
        """Return the frame numbers, if the metadata differs in nothing else."""
        a, b = before.rfind(_FRAME_KEY), after.rfind(_FRAME_KEY)
        if a >= 0 and b >= 0:  # the last field, as XLA prints it
            one, other = before[a + len(_FRAME_KEY) : -1], after[b + len(_FRAME_KEY) : -1]
            if one.isdecimal() and other.isdecimal():
                return (one, other) if before[:a] == after[:b] else None
        if _FRAME.sub("", before) != _FRAME.sub("", after) or not before or not after:
            return None
        numbers = (self._base.reader.metadata(before), self._head.reader.metadata(after))
        first, second = (str(metadata.stack_frame_id or 0) for metadata in numbers)
        return first, second

    def _is_same_stack(self, frames: tuple[str, str]) -> bool:
        known = self._same_stack.get(frames)
        if known is None:
            stacks = [
                module.stack_frames.stack(int(number) if len(number) <= _LONGEST_NUMBER else 0)
                for module, number in zip((self._base, self._head), frames, strict=True)
            ]
            known = self._same_stack[frames] = stacks[0] == stacks[1]
        return known


def without_names(text: str) -> str:
    """Return metadata without the names set by the scheduler and the deduplicator.

    >>> without_names('{op_name="f" scheduling_name="add.3" stack_frame_id=1}')
    '{op_name="f" stack_frame_id=1}'
    """
    start = text.find(_SCHEDULING)
    if start < 0 and _DEDUPLICATED not in text:
        return text
    end = text.find('"', start + len(_SCHEDULING))
    if start < 0 or end < 0 or "\\" in text or _DEDUPLICATED in text or _SCHEDULING in text[end:]:
        return _NAMES.sub("", text)
    return text[:start].rstrip() + text[end + 1 :]
