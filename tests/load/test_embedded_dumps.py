"""Logs with dumps of several kinds between other lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import hlo_lens
from tests import corpus

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = corpus.SAMPLES / "cpu" / "tp_mlp"


def text(part: str) -> str:
    (path,) = FOLDER.glob(f"*after_optimizations{part}.txt")
    return path.read_text("utf-8")


HLO, ASSIGNMENT, RANGES = text(""), text("-buffer-assignment"), text("-live-range")
OOM = (corpus.SAMPLES / "logs" / "tpu_oom_libtpu_0_0_17.txt").read_text("utf-8")

ORDERS = {
    "hlo first": (HLO, ASSIGNMENT, RANGES, OOM),
    "assignment first": (ASSIGNMENT, HLO, OOM, RANGES),
    "message first": (OOM, RANGES, ASSIGNMENT, HLO),
}


@pytest.mark.parametrize("parts", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("start", ["start of the log\n", ""])
def test_every_kind_in_a_log_is_read(parts: tuple[str, ...], start: str, tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(start + "\nother text: of others\n".join(parts) + "\nthe end\n", "utf-8")
    module, *rest = hlo_lens.load(path).modules
    assert module.hlo is not None
    assert module.hlo.instruction_count == hlo_lens.parse_hlo(HLO).instruction_count
    whole = hlo_lens.parse_buffer_assignment(ASSIGNMENT)
    assignment, ranges = module.buffer_assignment, module.live_range
    assert assignment is not None
    assert ranges is not None
    assert [a.size for a in assignment.allocations] == [a.size for a in whole.allocations]
    assert assignment.gaps == ()
    assert ranges.peak_bytes == hlo_lens.parse_live_range(RANGES).peak_bytes
    logs = [dump.log for dump in rest if dump.log is not None]
    assert [len(log.compile_ooms) for log in logs] == [2]


def test_buffer_texts_of_a_log_without_hlo_are_one_module_until_a_kind_repeats(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.txt"
    path.write_text(f"a\n{ASSIGNMENT}b\n{RANGES}c\n{ASSIGNMENT}d\n", "utf-8")
    first, second = hlo_lens.load(path).modules
    assert (first.buffer_assignment is None, first.live_range is None) == (False, False)
    assert (second.buffer_assignment is None, second.live_range is None) == (False, True)


def test_gap_in_a_buffer_text_has_the_line_of_the_log(tmp_path: Path) -> None:
    lines = ASSIGNMENT.splitlines()
    lines[3] = lines[3].replace("value:", "valve:")
    path = tmp_path / "log.txt"
    path.write_text("one\ntwo\n" + "\n".join(lines) + "\nthree\n", "utf-8")
    (module,) = hlo_lens.load(path).modules
    assignment = module.buffer_assignment
    assert assignment is not None
    assert assignment.gaps[0].line == 6


def test_texts_of_two_modules_belong_to_the_module_before_them(tmp_path: Path) -> None:
    other = HLO.replace("HloModule jit_train_step", "HloModule jit_other")
    path = tmp_path / "log.txt"
    path.write_text(f"{HLO}\n{ASSIGNMENT}\n{other}\n{RANGES}\n", "utf-8")
    first, second = (dump for dump in hlo_lens.load(path).modules if dump.hlo is not None)
    assert (first.buffer_assignment is None, first.live_range is None) == (False, True)
    assert (second.buffer_assignment is None, second.live_range is None) == (True, False)


TRACE = "main, train.py:3\n├─ load, data.py:7\n└─ step, train.py:9\n"
LISTING = "/home/me/project\n├── README.md\n└── src\n    ├── main.py\n    └── utils.py\n"
WARNING = (
    "Some donated buffers were not usable: ShapedArray(float32[8,4]).\n"
    "See an explanation at https://jax.readthedocs.io/en/latest/faq.html#buffer-donation.\n"
)


def found(path: Path) -> tuple[int, int, int]:
    """Return how many modules with HLO, logs and call trees there are in a file."""
    modules = hlo_lens.load(path).modules
    return (
        sum(module.hlo is not None for module in modules),
        sum(len(module.log.warnings) for module in modules if module.log is not None),
        sum(len(module.call_trees.trees) for module in modules if module.call_trees is not None),
    )


@pytest.mark.parametrize(
    ("parts", "expected"),
    {
        "stacks of live ranges are no calls": ((HLO, RANGES, WARNING), (1, 1, 0)),
        "nor are they without HLO": (("start\n", RANGES, WARNING), (0, 1, 0)),
        "files of a folder are no calls": ((LISTING, WARNING, HLO), (1, 1, 0)),
        "calls beside live ranges": ((RANGES, TRACE, HLO), (1, 0, 1)),
        "calls and files": ((LISTING, TRACE, WARNING), (0, 1, 1)),
        "words between modules": ((HLO, WARNING, HLO), (2, 1, 0)),
        "words before and after": ((WARNING, HLO, TRACE, HLO, WARNING), (2, 2, 1)),
        "words inside a module": ((HLO.replace("\n\n%", f"\n\n{WARNING}\n%", 1),), (1, 1, 0)),
        "words of HLO are none of a log": (
            (HLO.replace('op_name="', "op_name=\"Mesh('x') "),),
            (1, 0, 0),
        ),
    }.values(),
)
def test_each_part_is_read_as_its_kind(
    parts: tuple[str, ...], expected: tuple[int, int, int], tmp_path: Path
) -> None:
    path = tmp_path / "log.txt"
    path.write_text("\n".join(parts), "utf-8")
    assert found(path) == expected


def test_buffer_text_deep_in_a_log_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(WARNING + "a line of words\n" * 10_000 + ASSIGNMENT + "end\n", "utf-8")
    buffers, log = hlo_lens.load(path).modules
    assert buffers.buffer_assignment is not None
    assert buffers.buffer_assignment.gaps == ()
    assert log.log is not None
    assert log.log.lines == 10_003 + ASSIGNMENT.count("\n")
    assert log.log.dump_lines == ASSIGNMENT.count("\n")
    assert (log.log.understood_lines, log.log.passed_lines) == (2, 10_001)


def test_lines_of_different_texts_in_a_log_are_separated(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(f"start\n{HLO}{WARNING}{HLO}end\n", "utf-8")
    first, second, log = hlo_lens.load(path).modules
    assert first.hlo is not None
    assert second.hlo is not None
    assert (first.gaps, first.hlo.passed_lines, second.hlo.passed_lines) == ((), 3, 1)
    assert log.log is not None
    assert log.log.dump_lines == 2 * HLO.count("\n")
    (warning,) = log.log.warnings
    assert warning.line == HLO.count("\n") + 2


# ---- --xla_dump_to=- -----------------------------------------------------------------------------

NAME = "module_0007.jit_f"
LLVM = "; ModuleID = 'x'\n%kernel = type { i64 }\n  %2 = icmp eq i64 %1, 4\n"


def printed(texts: dict[str, str], lead: str = "") -> str:
    parts = [f"*** Begin {name} ***\n{body}\n*** End {name} ***\n" for name, body in texts.items()]
    text = "E1 dump.cc:2] Refusing to write x.o to stdout\n".join(parts)
    return "".join(f"{lead}{line}\n" for line in text.splitlines())


FILES = {
    f"{NAME}.before_optimizations.txt": HLO,
    f"{NAME}.cpu_after_optimizations.txt": HLO,
    f"{NAME}.cpu_after_optimizations-buffer-assignment.txt": ASSIGNMENT,
    f"{NAME}.cpu_after_optimizations-live-range.txt": RANGES,
    f"{NAME}.kernel.ir-no-opt.ll": LLVM,
}


@pytest.mark.parametrize("lead", ["", "> "])
def test_files_that_xla_prints_are_those_of_a_folder(lead: str, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text(printed(FILES, lead), "utf-8")
    dump = hlo_lens.load(path)
    (module,) = dump.modules
    assert (module.name, module.number, module.stage) == (NAME, 7, "cpu_after_optimizations")
    assert module.buffer_assignment is not None
    assert module.live_range is not None
    assert module.before is not None
    assert module.gaps == ()
    assert (dump.files, [(one.kind, one.count) for one in dump.skipped]) == (
        5,
        [("LLVM IR or PTX", 1)],
    )


def test_printed_file_without_its_end_ends_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    text = printed(FILES).replace(f"*** End {NAME}.before_optimizations.txt ***\n", "")
    path.write_text(text + OOM, "utf-8")
    module, log = hlo_lens.load(path).modules
    assert module.before is not None
    assert module.before.instruction_count == hlo_lens.parse_hlo(HLO).instruction_count
    assert log.log is not None
    assert len(log.log.compile_ooms) == 2


def test_printed_files_without_hlo_are_no_dump(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text(printed({f"{NAME}.kernel.ir-no-opt.ll": LLVM}), "utf-8")
    with pytest.raises(hlo_lens.UnreadableError, match="it holds 1 LLVM IR or PTX"):
        hlo_lens.load(path)


@corpus.needs_corpus
def test_print_of_the_corpus_is_read_without_gaps() -> None:
    path = corpus.CORPUS / "texts" / "t" / "70_dump_stdout.txt"
    if not path.exists():
        pytest.skip("the corpus has no texts")
    modules = hlo_lens.load(path).modules
    assert [module.number for module in modules] == [0, 2, 4]
    assert all(module.buffer_assignment and not module.gaps for module in modules)
