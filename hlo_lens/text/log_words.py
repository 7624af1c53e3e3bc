"""Words in logs at which messages begin that hlo-lens reads.

Plain searches for one word at a time are the fastest way through hundreds of megabytes; the readers
then parse the text at each hit. A word without a reader only costs time.
"""

from __future__ import annotations

OUT_OF_MEMORY = (
    "Ran out of memory in memory space ",
    "Ran out of memory on ",
    "Allocation (size=",
    "TPU TensorCore Hbm usage: ",
)
FAILED_ALLOCATION = (
    *(f"{o}ut of memory {rest}" for o in "Oo" for rest in ("while trying to", "allocating ")),
    *("Failed to allocate ", "failed to allocate "),
    *("Attempting to allocate ", "Attempting to reserve ", "Allocator ("),
    *("Ran out of memory trying to allocate ", "OOM when allocating tensor with shape"),
)
_STATE_HEADS = (
    "BFCAllocator dump for ",
    "Bin (256):",
    "Next region of size ",
    "Summary of in-use Chunks by size",
    "Sum Total of in-use chunks: ",
)
ALLOCATOR_STATE = (*_STATE_HEADS, " Chunks of size ", "in use in bin.", "MaxInUse")
"""Words of a state of an allocator that was pasted whole, or from some line on."""

REMATERIALIZATION_LIMIT = ("Can't reduce memory use below",)
BUFFERS = ("BufferAssignment OOM Debugging", "BufferAssignment stats:", "Peak buffers:")

WARNINGS = (
    "Involuntary full rematerialization",
    "Some donated buffers were not usable:",
    "Very slow compile?",
    "Constant folding an instruction is taking > ",
    "byte size of input/output arguments (",
)
STATS = ("CompiledMemoryStats(", "'argument_size_in_bytes'", "'bytes accessed", '"bytes accessed')
_SHARDING_CALLS = ("NamedSharding(", "PartitionSpec(")
SHARDINGS = (*_SHARDING_CALLS, "Mesh(", "OrderedDict(")
SHARDINGS_NEARBY = (" => ", "P(")
"""Words of shardings that other texts have too; they count only in a text with those above."""

BOXES = ("┌──",)
"""Left upper corner of a drawing."""

_SHARDING_SIGNS = (*_SHARDING_CALLS, *("Mesh('", 'Mesh("', "Mesh(axis_sizes="))
"""Words that distinguish a log with shardings from other texts."""

_BOX_WALLS = ("│ GPU ", "│ CPU ", "│ TPU ", "│GPU ", "│CPU ", "│TPU ")

_MESSAGES = (*OUT_OF_MEMORY, *FAILED_ALLOCATION, *REMATERIALIZATION_LIMIT, *BUFFERS, *WARNINGS)

FIRST_LINES = (*_MESSAGES, *_STATE_HEADS, BOXES[0])
"""Words that a message of several lines, or a drawing, begins with."""

ALL = (*_MESSAGES, *ALLOCATOR_STATE, *STATS, *_SHARDING_SIGNS, *_BOX_WALLS)
"""All words that make a text a log."""


def has_log_words(text: str) -> bool:
    """Whether a text contains any of the words."""
    return any(word in text for word in ALL)
