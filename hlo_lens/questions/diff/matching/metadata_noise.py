"""Noise in metadata: names set by the scheduler, numbers of stack frames, places in the source."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

from hlo_lens.questions.diff.matching.attribute_text import METADATA_KEY
from hlo_lens.questions.diff.matching.edits import Noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hlo_lens.hlo.module import HloModule

Found: TypeAlias = tuple[Noise, str, "str | None", "str | None"]
"""A kind of noise, the property that differs, and its values in base and head."""

_FRAME_NUMBER = re.compile(r"\bstack_frame_id=(\d{1,9})\b")
_FIRST_OF_LINE = re.compile(r"stack_frame_id=(\d{1,9})\}[^\n]*+")
_FRAME = re.compile(r"\s*stack_frame_id=\d+")
_NAMES = re.compile(r'\s*(?:scheduling_name|deduplicated_name)="[^"\\]*+(?:\\.[^"\\]*+)*+"')
_DEDUPLICATED = "deduplicated_name="
_SCHEDULING = 'scheduling_name="'
_FRAME_KEY = "stack_frame_id="
_LINE_KEY = "source_line="
_LINES = re.compile(
    r'source_line=(?<=" source_line=)\d++(?: source_(?:end_line|column|end_column)=\d++)*+'
    r'(?=[^{}"\\\n]*+(?:"[^"\\\n]*+"[^{}"\\\n]*+)*+\}\n)'
)
"""Line numbers after a string, in metadata at the end of a line; not those inside a string."""
_LONGEST_NUMBER = 9


class MetadataNoise:
    """Comparison of metadata; call stacks are compared once per pair of frames."""

    def __init__(self, base: HloModule, head: HloModule) -> None:
        self._base = base
        self._head = head
        self._is_same_stack = cache(self._are_stacks_equal)
        self._places: dict[str, Found | None] = {}

    def alone(self, mine: str, yours: str) -> Noise | None:
        """Return the kind of noise of two attribute lists that differ in their metadata alone.

        None where they differ in something else, or where it takes a parser to tell.
        """
        cut = mine.find(METADATA_KEY)
        head = mine[:cut]
        if cut < 0 or '"' in head or not yours.startswith(head + METADATA_KEY):
            return None
        if mine.find("}", cut) != len(mine) - 1 or yours.find("}", cut) != len(yours) - 1:
            return None
        start = cut + len(METADATA_KEY) - 1
        return self.found(mine[start:], yours[start:])[0]

    def found(self, mine: str, yours: str) -> Found:
        """Return the kind of noise of two different ``metadata`` values."""
        if _has_numbers(mine) or _has_numbers(yours):
            before, after = without_names(mine), without_names(yours)
            if before == after:
                return Noise.NAMES, "scheduling_name", mine or None, yours or None
            frames = self._frames_alone(before, after)
            if frames is not None and self._is_same_stack(frames):
                return Noise.STACK_FRAMES, "stack_frame_id", *frames
        return Noise.METADATA, "metadata", mine or None, yours or None

    def moved(self, texts: Sequence[str]) -> int:
        """Return how many attribute lists have a frame number that is two places."""
        lines = "\n".join(texts)
        numbers = Counter(_FIRST_OF_LINE.findall(lines))
        has_others = numbers.total() != lines.count(_FRAME_KEY)  # in strings, or not to be read
        if has_others or lines.count("\n") >= len(texts):  # or in computations inside of others
            return sum(1 for text in texts if self.frames(text) is not None)
        places = ((self.frames(f"{_FRAME_KEY}{number}}}"), n) for number, n in numbers.items())
        return sum(count for place, count in places if place is not None)

    def frames(self, text: str) -> Found | None:
        """Return the noise if one frame number is two places in modules with different tables."""
        at = text.find(_FRAME_KEY)
        if at < 0:
            return None
        number = text[at + len(_FRAME_KEY) : text.find("}", at)]  # the last field, as XLA prints it
        if number not in self._places:
            match = _FRAME_NUMBER.search(text)
            if match is None:
                return None
            number = match[1]
            frame = int(number)
            before, after = (m.stack_frames.location(frame) for m in (self._base, self._head))
            self._places[number] = (
                None if before == after else (Noise.METADATA, "source", str(before), str(after))
            )
        return self._places[number]

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

    def _are_stacks_equal(self, frames: tuple[str, str]) -> bool:
        mine, yours = (
            module.stack_frames.stack(int(number) if len(number) <= _LONGEST_NUMBER else 0)
            for module, number in zip((self._base, self._head), frames, strict=True)
        )
        return mine == yours


def _has_numbers(text: str) -> bool:
    """Return whether metadata has names or numbers that XLA chose."""
    return _FRAME_KEY in text or _SCHEDULING in text or _DEDUPLICATED in text


def without_lines(texts: Sequence[str]) -> Sequence[str]:
    """Return attribute lists without the line numbers in metadata at their ends.

    Those of several lines are returned as they are, whatever the others are.

    >>> without_lines([', metadata={op_name="f" source_file="a.py" source_line=7}'])
    [', metadata={op_name="f" source_file="a.py" }']
    """
    joined = "\n".join((*texts, ""))
    if _LINE_KEY not in joined:
        return texts
    found = _LINES.sub("", joined).split("\n")[:-1]
    if len(found) == len(texts):
        return found
    return [text if "\n" in text else _LINES.sub("", f"{text}\n")[:-1] for text in texts]


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
