"""Out-of-memory messages: complete, cut, wrapped and among other lines."""

from __future__ import annotations

import pytest

import hlo_lens
from hlo_lens.buffers.memory_usage import HumanSize
from hlo_lens.logs.log import parse_log
from hlo_lens.logs.out_of_memory import FailedAllocation
from tests import corpus
from tests.timing import cpu_seconds

LOGS = corpus.SAMPLES / "logs"
OLD = (LOGS / "tpu_oom_libtpu_0_0_17.txt").read_text("utf-8")
FIRST = OLD[OLD.index("Ran out of memory") : OLD.index("compiling invert")]
SECOND = OLD[OLD.rindex("Ran out of memory") : OLD.rindex("done")]


def size(text: str) -> HumanSize:
    return HumanSize(text)


# ---- the TPU compiler --------------------------------------------------------------------------


def test_statement_and_allocations_are_those_of_the_message() -> None:
    log = parse_log(OLD)
    first, second = log.compile_ooms
    assert (first.memory_space, first.used) == ("hbm", (size("51.00G"),))
    assert (first.capacity, first.exceeded) == (size("15.75G"), size("35.25G"))
    assert [(part.name, str(part.size)) for part in first.usage] == [
        ("reserved", "258.00M"),
        ("program", "51.00G"),
        ("arguments", "0B"),
    ]
    (temp,) = first.parts
    assert (str(temp.unpadded), str(temp.padded)) == ("49.00G", "49.00G")
    assert str(temp.fragmentation) == "2.00G"
    assert [a.number for a in first.allocations] == list(range(1, 12))
    assert {a.opcode for a in first.allocations[:6]} == {"custom-call"}
    padded = second.allocations[1]
    assert (padded.unpadded, padded.padding) == (size("512.00M"), size("15.50G"))
    assert (padded.expansion, padded.instruction) == (32.0, "copy.20.remat2")
    assert padded.operator is not None
    assert (padded.operator.source_file, padded.operator.source_line) == ("tpu_oom.py", 35)
    assert log.gaps == ()
    assert first.is_complete
    assert second.is_complete


SENTENCES = {
    "used": (
        "Ran out of memory in memory space vmem. Used 44.05M of 32.00M.",
        {"memory_space": "vmem", "used": (size("44.05M"),), "capacity": size("32.00M")},
    ),
    "exceeded on the next line": (
        "Ran out of memory in memory space hbm. Used 36.99G of 31.25G hbm.\n"
        "Exceeded hbm capacity by 5.74G.",
        {
            "memory_space": "hbm",
            "used": (size("36.99G"),),
            "capacity": size("31.25G"),
            "exceeded": size("5.74G"),
        },
    ),
    "temporaries": (
        "Ran out of memory on HBM, the total memory required for HLO temporaries (130.00G) "
        "exceeds available HBM (15.75G). HLO module: jit_big.v2.",
        {
            "memory_space": "hbm",
            "used": (size("130.00G"),),
            "capacity": size("15.75G"),
            "used_for": "HLO temporaries",
            "module": "jit_big.v2",
        },
    ),
    "stack": (
        "Ran out of memory in memory space vmem while allocating on stack for %k.1 = f32[8]{0} "
        'custom-call(%p), metadata={op_name="a. b"}. Scoped allocation with size 36.25M and limit '
        "32.00M exceeded scoped vmem limit by 4.25M. It should not be possible to run out of it",
        {
            "memory_space": "vmem",
            "used": (size("36.25M"),),
            "capacity": size("32.00M"),
            "exceeded": size("4.25M"),
            "used_for": "the stack of one instruction",
            "instruction": '%k.1 = f32[8]{0} custom-call(%p), metadata={op_name="a. b"}',
        },
    ),
    "both cores": (
        "TPU TensorCore Hbm usage: 34.82G, SparseCore Hbm usage 74.10G, exceeding available "
        "bytes: 95.74G",
        {
            "memory_space": "hbm",
            "used": (size("34.82G"), size("74.10G")),
            "capacity": size("95.74G"),
            "used_for": "TensorCore and SparseCore",
        },
    ),
    "unknown sizes": (
        "Ran out of memory in memory space hbm. Used 17.60G of 16.00G hbm. Exceeded hbm capacity "
        "by 1.60G.\n\nTotal hbm usage >= 17.60G:\n    arguments       unknown size \n\n"
        "Output size unknown.\n",
        {
            "memory_space": "hbm",
            "used": (size("17.60G"),),
            "capacity": size("16.00G"),
            "exceeded": size("1.60G"),
            "total": size("17.60G"),
        },
    ),
}


@pytest.mark.parametrize(("text", "expected"), SENTENCES.values(), ids=SENTENCES)
def test_every_wording_is_read(text: str, expected: dict[str, object]) -> None:
    (message,) = parse_log(f"E0100 RESOURCE_EXHAUSTED: {text}\nnext\n").compile_ooms
    assert {name: getattr(message, name) for name in expected} == expected
    assert message.is_complete


def test_allocation_larger_than_the_memory_has_shape_and_purpose() -> None:
    text = (
        "x Allocation (size=4194304) would exceed memory (size=1048576) :: #allocation3 "
        "[shape = 'u8[4194304]{0}', space=smem, size = 0x400000, scoped, tag = 'prefetched "
        "SMEM operand 0'] :: pk3.1\n"
    )
    (message,) = parse_log(text).compile_ooms
    assert (message.memory_space, message.used_for) == ("smem", "prefetched SMEM operand 0")
    assert (message.instruction, message.parts[0].name) == ("pk3.1", "u8[4194304]{0}")
    assert message.capacity == size("1048576B")


def test_allocations_without_sizes_and_numbers_are_separated() -> None:
    text = (
        "Ran out of memory in memory space vmem. It should not be possible to run out of vmem.\n\n"
        "Largest program allocations in vmem:\n\n"
        "  XLA label: register allocator spill slots\n  Allocation type: scoped\n\n"
        "  XLA label: %fusion.7 = (f32[], f32[8]{0}) fusion(f32[8]{0} %p), kind=kLoop\n"
        "  Allocation type: scoped\n"
    )
    (message,) = parse_log(text).compile_ooms
    assert [(a.label or "")[:10] for a in message.allocations] == ["register a", "%fusion.7 "]
    assert [a.instruction for a in message.allocations] == [None, "fusion.7"]
    assert message.allocations[0].size is None


def test_foreign_lines_inside_are_gaps_with_their_place() -> None:
    lines = FIRST.splitlines()
    place = next(k for k, line in enumerate(lines) if "Unpadded size" in line)
    lines.insert(place, "I0320 epoch 3, loss 2.5")
    log = parse_log("\n".join(lines))
    assert log.compile_ooms[0].allocations == parse_log(FIRST).compile_ooms[0].allocations
    assert [(gap.line, gap.lines) for gap in log.gaps] == [(place + 1, 1)]
    assert not log.compile_ooms[0].is_complete


@pytest.mark.parametrize("cut", range(0, len(FIRST), 97))
def test_message_cut_anywhere_gives_its_beginning_or_an_error(cut: int) -> None:
    try:
        log = parse_log(FIRST[:cut])
    except hlo_lens.DumpSyntaxError:
        return
    whole = parse_log(FIRST).compile_ooms[0].allocations
    for message in log.compile_ooms:
        assert message.allocations == whole[: len(message.allocations)]


def test_text_without_any_message_is_an_error() -> None:
    with pytest.raises(hlo_lens.DumpSyntaxError, match="nothing that hlo-lens reads"):
        parse_log("Ran out of memory in my head\n")


# ---- running programs --------------------------------------------------------------------------

FAILURES = {
    "bytes": (
        "Out of memory while trying to allocate 34912723376 bytes.",
        FailedAllocation(requested=size("34912723376B")),
    ),
    "executable": (
        "Out of memory while trying to allocate 73.30GiB. [executable_name='jit_f']",
        FailedAllocation(requested=size("73.30GiB"), program="jit_f"),
    ),
    "cpu": (
        "Out of memory allocating 70368744177664 bytes.",
        FailedAllocation(requested=size("70368744177664B")),
    ),
    "request": (
        "Failed to allocate request for 80.16GiB (86071234560B) on device ordinal 3",
        FailedAllocation(requested=size("86071234560B"), device="3"),
    ),
    "device": (
        "failed to allocate 2.00GiB (2147483648 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY",
        FailedAllocation(requested=size("2147483648B")),
    ),
    "tpu buffer": (
        "Error allocating device buffer: Attempting to allocate 50.00M. That was not possible. "
        "There are 27.86M free.; (0x1x0_HBM0)",
        FailedAllocation(
            requested=size("50.00M"),
            free=size("27.86M"),
            device="0x1x0_HBM0",
            purpose="device buffer",
        ),
    ),
    "tpu fragmented": (
        "Attempting to allocate 1.82G.\nThat was not possible. There are 2.54G free. The largest "
        "contiguous region of free memory is 1.10G due to fragmentation.",
        FailedAllocation(requested=size("1.82G"), free=size("2.54G"), largest_free=size("1.10G")),
    ),
    "tpu program": (
        "Error loading program 'jit_g': Attempting to reserve 29.49G at the bottom of memory. "
        "That was not possible. There are 147.64M free, 0B reserved, and 147.64M reservable.",
        FailedAllocation(
            requested=size("29.49G"), free=size("147.64M"), program="jit_g", purpose="program"
        ),
    ),
    "allocator": (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 73.30GiB (rounded to "
        "78702055168)requested by op <unknown>",
        FailedAllocation(requested=size("78702055168B"), allocator="GPU_0_bfc"),
    ),
    "allocator of 2017": (
        "Ran out of memory trying to allocate 29.91MiB.  See logs for memory state.",
        FailedAllocation(requested=size("29.91MiB")),
    ),
    "constant": (
        "INTERNAL: Failed to allocate 1073741824 bytes for new constant",
        FailedAllocation(requested=size("1073741824B")),
    ),
    "tensor of TensorFlow": (
        "OOM when allocating tensor with shape[4096,4096] and type float on "
        "/job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc",
        FailedAllocation(requested=size("67108864B"), device="device:GPU:1", allocator="GPU_1_bfc"),
    ),
    "half a tensor": (
        "OOM when allocating tensor with shape[3,5] and type half",
        FailedAllocation(requested=size("30B")),
    ),
    "attempt": (
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 3.46GiB with freed_by_count=0."
        " The caller indicates that this is not a failure, but may mean",
        FailedAllocation(requested=size("3.46GiB"), allocator="GPU_0_bfc", is_fatal=False),
    ),
}


@pytest.mark.parametrize(("text", "expected"), FAILURES.values(), ids=FAILURES)
def test_every_failed_allocation_is_read(text: str, expected: FailedAllocation) -> None:
    log = parse_log(f"one\nException: {text}\nthree\n")
    assert log.failures == (expected,)
    assert log.failures[0].line == 2
    assert log.passed_lines == 2


def test_limit_of_rematerialization_has_exact_bytes_where_they_are_printed() -> None:
    log = parse_log(
        "W0306 18:29:46.880537 1 hlo_rematerialization.cc:2941] Can't reduce memory use below "
        "22.27GiB (23917347918 bytes) by rematerialization; only reduced to 37.90GiB "
        "(40693879420 bytes), down from 38.20GiB (41022266148 bytes) originally\n"
        "Can't reduce memory use below 51.28GiB by rematerialization; only reduced to 61.92GiB\n"
    )
    first, second = log.limits
    assert (first.wanted, first.reached) == (size("23917347918B"), size("40693879420B"))
    assert first.original == size("41022266148B")
    assert (second.wanted, second.reached, second.original) == (
        size("51.28GiB"),
        size("61.92GiB"),
        None,
    )


STATE = """\
BFCAllocator dump for GPU_0_bfc
Bin (256): \tTotal Chunks: 3, Chunks in use: 2. 768B allocated for chunks. 512B in use in bin. \
8B client-requested in use in bin.
Bin (512): \tTotal Chunks: 1, Chunks in use: 0 512B allocated for chunks. 0B client-requested \
for chunks. 0B in use in bin. 0B client-requested in use in bin.
Bin for 1.0GiB was 256.00MiB, Chunk State: \n\
  Size: 5.47MiB | Requested Size: 0B | in_use: 0 | bin_num: 14, prev:   Size: 512B
Next region of size 4096
InUse at 7f2a00 of size 256 next 1
InUse at 7f2b00 of size 256 next 2
Free  at 7f2c00 of size 512 next 3
Free  at 7f2e00 of size 3072 next 18446744073709551615
     Summary of in-use Chunks by size: \n\
2 Chunks of size 256 totalling 512B
Sum Total of in-use chunks: 512B
Total bytes in pool: 4096 memory_limit_: 8192 available bytes: 4096 curr_region_allocation_bytes_: 1
Stats: \n\
Limit:                            8192
InUse:                             512
MaxInUse:                         2048
NumAllocs:                          17
MaxAllocSize:                     1024
Reserved:                            0
PeakReserved:                        0
LargestFreeBlock:                    0
"""


def test_state_of_an_allocator_is_read() -> None:
    log = parse_log(f"before\n{STATE}\n*******____xxx\nafter\n")
    (state,) = log.allocators
    assert (state.name, state.line, state.is_complete) == ("GPU_0_bfc", 2, True)
    assert state.used_chunks == ((256, 2),)
    assert state.free_chunks == ((512, 1), (3072, 1))
    assert (state.size("Limit"), state.size("InUse")) == (size("8192B"), size("512B"))
    assert state.pool == size("4096B")
    assert log.gaps == ()


STATE_2026 = """\
     Summary of in-use Chunks by size: \n\
3 Chunks of size 1073741824 totalling 3.00GiB
Sum Total of in-use chunks: 3.00GiB
Total size in pool: 3.50GiB memory_limit_: 4.00GiB available size: 512.00MiB \
curr_region_allocation_bytes_: 8.00GiB
Stats: \n\
Limit:                         4.00GiB
InUse:                         3.00GiB
MaxInUse:                      3.25GiB
NumAllocs:                           3
MaxAllocSize:                  1.00GiB
LargestFreeBlock:                   0B
"""


def test_sizes_of_a_state_of_2026_are_ranges() -> None:
    (state,) = parse_log(STATE_2026).allocators
    assert (state.size("Limit"), state.size("InUse")) == (size("4.00GiB"), size("3.00GiB"))
    assert (state.pool, dict(state.stats)["NumAllocs"]) == (size("3.50GiB"), 3)
    assert state.is_complete


@pytest.mark.parametrize("first", range(1, 17))
def test_state_is_read_from_any_line_on(first: int) -> None:
    lines = STATE.splitlines(keepends=True)
    (state,) = parse_log("".join(lines[first:])).allocators
    stats = parse_log(STATE).allocators[0].stats
    assert state.stats == stats[max(0, first - 15) :]
    assert state.free_chunks is None or first < 3


# ---- several kinds in one log ------------------------------------------------------------------


def test_lines_add_up() -> None:
    log = parse_log(f"a\nb\n{FIRST}c\n{STATE}\n\nd\n{FAILURES['cpu'][0]}\n")
    gaps = sum(gap.lines for gap in log.gaps)
    assert log.understood_lines + gaps + log.passed_lines == log.lines
    assert len(log.compile_ooms) == len(log.allocators) == len(log.failures) == 1


def test_fields_below_the_sentence_are_the_failed_operation() -> None:
    text = (
        "Ran out of memory in memory space hbm. Used 35.56G of 31.25G hbm.\n"
        "Exceeded hbm capacity by 4.32G.\n"
        "Operator: jit(train_step)/jvp()/dot_general\n"
        "XLA label: fusion.14097 = fusion(... async-collective-done)\n"
    )
    (message,) = parse_log(text).compile_ooms
    assert str(message.exceeded) == "4.32G"
    (found,) = message.allocations
    assert found.size is None
    assert found.operator is not None
    assert found.operator.op_name == "jit(train_step)/jvp()/dot_general"
    assert found.label == "fusion.14097 = fusion(... async-collective-done)"


def test_a_tensor_without_its_type_has_no_size() -> None:
    text = "Resource exhausted: OOM when allocating tensor with shape[10000,1,28,28]\n"
    (failure,) = parse_log(text).failures
    assert (failure.requested, failure.purpose) == (None, "tensor[10000,1,28,28]")


LONG_LINES = {
    "refusals": "Ran out of memory in memory space hbm. Used 3.00G of 1.00G hbm. ",
    "failures": "failed to allocate 2.00GiB (2147483648 bytes) from device ",
    "chunks": "2 Chunks of size 256 totalling 512B ",
    "strings": "Out of memory while trying to allocate 5 bytes.\\n",
    "shardings": "{'bytes accessed': NamedSharding(mesh=Mesh('x': 4), spec=P('x',)) ",
    "drawings": "┌──┐",
    "statistics": "MaxInUse",
    "arrows": "P('x' => a b => ",
    "blocks": "Peak buffers: x ",
    "exceptions": "XlaError: Out of memory while trying to allocate 5 bytes. ",
}


@pytest.mark.parametrize("part", LONG_LINES.values(), ids=LONG_LINES)
def test_one_long_line_costs_no_more_than_its_length(part: str) -> None:
    text = f"{FIRST}\n{part * (100_000 // len(part))}"
    assert cpu_seconds(lambda: parse_log(text)) < 4
