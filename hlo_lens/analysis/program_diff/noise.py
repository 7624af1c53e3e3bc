"""Kinds of differences in the texts of two programs that do not change the program."""

from __future__ import annotations

from enum import Enum


class Noise(Enum):
    """A kind of difference that is counted and ignored, unless it is to count as a change.

    The value is its name in reports and on the command line.
    """

    NAMES = "names"
    IDS = "ids"
    CHANNEL_IDS = "channel-ids"
    STACK_FRAMES = "stack-frames"
    METADATA = "metadata"
    KEY_ORDER = "key-order"
    SPELLING = "spelling"
    INSTRUCTION_ORDER = "instruction-order"
    COMPUTATION_ORDER = "computation-order"
    COPIES = "copies"
    PRINTING = "printing"

    @property
    def meaning(self) -> str:
        """What differs, in words."""
        return _MEANINGS[self]


_MEANINGS = {
    Noise.NAMES: "names of instructions, computations and the module",
    Noise.IDS: "numbers at the end of names, and of barriers",
    Noise.CHANNEL_IDS: "channel ids, renumbered",
    Noise.STACK_FRAMES: "numbers of stack frames that are the same place",
    Noise.METADATA: "metadata: op names, places in the source, origins",
    Noise.KEY_ORDER: "order of keys in backend configs and frontend attributes",
    Noise.SPELLING: "spellings of one sharding, device group, shape or value",
    Noise.INSTRUCTION_ORDER: "order of instructions within their computation (the schedule)",
    Noise.COMPUTATION_ORDER: "order of computations in the text",
    Noise.COPIES: "copies of a computation that others share",
    Noise.PRINTING: "what one text prints and the other leaves out: get-tuple-element lines, "
    "wrapped async computations, layouts, shapes, long constants, controls, configs",
}
