"""Lines of messages that were wrapped at a width are joined."""

from __future__ import annotations

import textwrap

import pytest

from hlo_lens.syntax.logs.log import parse_log
from hlo_lens.text.source import clean
from hlo_lens.text.wrapped_lines import without_wraps

REMATERIALIZATION = (
    "W0905 17:27:21.1 7 hlo_rematerialization.cc:3231] Can't reduce memory use below 57.03GiB "
    "(61237292825 bytes) by rematerialization; only reduced to 68.32GiB (73361280968 bytes), down "
    "from 69.32GiB (74435022792 bytes) originally"
)
SHARDING = (
    "[spmd] Involuntary full rematerialization. The compiler was not able to go from sharding "
    "{devices=[4,1]<=[4]} to {devices=[1,2,2]<=[4] last_tile_dim_replicate} without doing a full "
    "rematerialization of the tensor for HLO operation: %copy.5 = f32[16,64] copy(f32[16,64] %p), "
    'sharding={devices=[4,1]<=[4]}, metadata={op_name="jit(f)/g"}.'
)
FAILURE = (
    "E RESOURCE_EXHAUSTED: Out of memory while trying to allocate 46.86GiB. [executable_name='f']"
)
STATE = """\
W0000 00:00:1.1 7 bfc.cc:1] 3 Chunks of size 1073741824 totalling 3.00GiB
I0000 00:00:1.2 7 bfc.cc:2] Sum Total of in-use chunks: 3.00GiB
I0000 00:00:1.3 7 bfc.cc:3] Total bytes in pool: 3758096384 memory_limit_: 4294967296 available \
bytes: 536870912 curr_region_allocation_bytes_: 8589934592
I0000 00:00:1.4 7 bfc.cc:4] Stats:
Limit:                      4294967296
InUse:                      3221225472
MaxInUse:                   3221225472
NumAllocs:                           3
MaxAllocSize:               1073741824"""


def at_width(text: str, width: int, *, by_words: bool) -> str:
    """Return a text with its long lines wrapped."""
    lines: list[str] = []
    for line in text.splitlines():
        if by_words:
            lines += textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        else:
            lines += [line[k : k + width] for k in range(0, len(line), width)]
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("by_words", [True, False])
@pytest.mark.parametrize("width", [60, 72, 80, 100])
@pytest.mark.parametrize("text", [REMATERIALIZATION, SHARDING, FAILURE, STATE])
def test_wrapped_messages_are_read_as_whole_ones(text: str, width: int, *, by_words: bool) -> None:
    whole, wrapped = parse_log(text), parse_log(at_width(text, width, by_words=by_words))
    assert wrapped.limits == whole.limits
    assert wrapped.warnings == whole.warnings
    assert wrapped.failures == whole.failures
    assert wrapped.allocators == whole.allocators
    assert wrapped.gaps == ()


def test_lines_below_keep_their_numbers() -> None:
    text = f"start\n\n{at_width(REMATERIALIZATION, 72, by_words=True)}\n{FAILURE}\n"
    log = parse_log(text)
    assert [log.limits[0].line, log.failures[0].line] == [3, text.count("\n")]
    assert log.lines == text.count("\n")


UNWRAPPED = {
    "short": "Out of memory while trying to allocate 4 bytes.\nnext line of the log\n",
    "one of many": f"{FAILURE}\n" * 3,
    "state": STATE + "\n",
}


@pytest.mark.parametrize("text", UNWRAPPED.values(), ids=UNWRAPPED)
def test_whole_lines_are_not_joined(text: str) -> None:
    source = clean(text)
    assert without_wraps(source) is source


def test_lines_of_spaces_cost_no_more_than_their_length() -> None:
    """Parts of a log that other readers take are blanked out: long lines of spaces."""
    source = clean(f"a\n{' ' * 500_000}\nb\n")
    assert without_wraps(source) is source
