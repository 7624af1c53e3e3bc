"""Passes in which something appears, changes or disappears."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hlo_lens import HloLensError, load
from hlo_lens.questions.dumps.passes import (
    PassTrack,
    Subject,
    modules_with_passes,
    pass_of,
    subject_of,
    track,
    tracked_stages,
)
from tests.corpus import SAMPLES
from tests.load.test_load import write

if TYPE_CHECKING:
    from pathlib import Path

HEAD = (
    "HloModule m{alias}\n\nENTRY e {{\n  p = f32[8] parameter(0)\n{lines}"
    "  ROOT r = f32[8] negate({of})\n}}\n"
)
COPY = "  c = f32[8] copy(p)\n"
ALIAS = ", input_output_alias={ {}: (0, {}, may-alias) }"

PASSES = [
    ("before_optimizations", HEAD.format(alias=ALIAS, lines="", of="p")),
    ("0000.outer.after_pipeline-start.before_one", HEAD.format(alias=ALIAS, lines="", of="p")),
    ("0001.outer.after_one.before_two", HEAD.format(alias=ALIAS, lines=COPY, of="c")),
    (
        "0002.inner.after_pipeline-start.before_three",
        HEAD.format(alias="", lines=COPY + COPY.replace("c =", "d ="), of="c"),
    ),
    ("0003.inner.after_three.before_pipeline-end", HEAD.format(alias="", lines=COPY, of="c")),
    ("0004.outer.after_two.before_four", HEAD.format(alias="", lines=COPY, of="c")),
    ("0005.next.after_pipeline-start.before_five", HEAD.format(alias="", lines="", of="p")),
    ("0006.copy-insertion.after_adding_copies", HEAD.format(alias="", lines=COPY, of="c")),
    ("after_spmd_partitioner", HEAD.format(alias="", lines="", of="p")),
    ("cpu_after_optimizations", HEAD.format(alias="", lines="", of="p")),
]


def tracked(folder: Path, *words: str) -> list[PassTrack]:
    """Return the track in a folder with the passes above."""
    write(folder, {f"module_0000.m.{stage}.txt": text for stage, text in PASSES})
    (module,) = modules_with_passes(load(folder).modules)
    return list(track(module, [subject_of(word) for word in words]))


def test_change_is_attributed_to_the_pass_in_the_later_name(tmp_path: Path) -> None:
    (found,) = tracked(tmp_path, "copy")
    assert found.counts == (0, 0, 1, 2, 1, 1, 0, 1, 0)
    assert [(c.before_count, c.after_count, c.where) for c in found.changes] == [
        (0, 1, "by one in pipeline outer"),
        (1, 2, "by two in pipeline outer, before its pipeline inner"),
        (2, 1, "by three in pipeline inner"),
        (1, 0, "before pipeline next began"),
        (0, 1, "by adding_copies in pipeline copy-insertion"),
        (1, 0, "between the last pass and cpu_after_optimizations"),
    ]
    assert found.appears is found.changes[0]
    assert found.disappears is found.changes[3]
    assert found.changes[1].added == ("d",)
    assert found.changes[2].removed == ("d",)


def test_alias_and_name_disappear(tmp_path: Path) -> None:
    alias, name = tracked(tmp_path, "alias", "%d")
    assert alias.appears is None
    assert alias.disappears is not None
    assert (alias.disappears.stage[:4], alias.disappears.removed) == ("0002", ("{}=parameter 0",))
    assert name.appears is not None
    assert name.appears.added == ("copy f32[8] in e",)
    assert [c.stage[:4] for c in name.changes] == ["0002", "0003"]


def test_temporaries_are_estimated_in_the_order_of_the_text(tmp_path: Path) -> None:
    (found,) = tracked(tmp_path, "temp")
    # c lies in the output's memory as soon as that is not the parameter's; d has no use
    assert found.counts == (0, 0, 32, 32, 0, 0, 0, 0, 0)
    assert [row[3:6] for row in found.rows()] == [(0, 32, 32), (32, 0, -32)]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("all-gather", "collective"),
        ("send", "collective"),
        ("copy", "opcode"),
        ("temp", "temp"),
        ("alias", "alias"),
        ("fusion.3", "name"),
        ("%x", "name"),
    ],
)
def test_subject_of_a_word(word: str, kind: str) -> None:
    assert subject_of(word) == Subject(word.removeprefix("%"), kind)


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        ("0009.spmd.after_a.before_b", ("spmd", "a")),
        ("0012.After_X64_rewriter,_x.after_cse.before_y", ("After_X64_rewriter,_x", "cse")),
        ("0003.p.after_v1.2_thing.before_x", ("p", "v1.2_thing")),
        ("0054.copy-insertion.removing", ("copy-insertion", "removing")),
        ("before_optimizations", (None, None)),
    ],
)
def test_pipeline_and_pass_of_a_text(stage: str, expected: tuple[str | None, str | None]) -> None:
    assert pass_of(stage) == expected


def test_name_in_no_text_is_an_error_with_near_names(tmp_path: Path) -> None:
    with pytest.raises(HloLensError, match=r"rr is in no text: .*; did you mean r"):
        tracked(tmp_path, "rr")


def test_dump_without_passes_names_the_flag() -> None:
    with pytest.raises(HloLensError, match=r"--xla_dump_hlo_pass_re=\.\*") as caught:
        modules_with_passes(load(SAMPLES / "cpu" / "wasteful").modules)
    assert caught.value.exit_code == 3


def test_unreadable_text_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, {f"module_0000.m.{stage}.txt": text for stage, text in PASSES})
    write(
        tmp_path, {"module_0000.m.0003.inner.after_three.before_pipeline-end.txt": "HloModule m\n!"}
    )
    (module,) = load(tmp_path).modules
    (found,) = track(module, [subject_of("copy")])
    assert found.counts[4] is None
    assert [c.stage[:4] for c in found.changes][:3] == ["0001", "0002", "0004"]


def test_collectives_of_a_real_compile_appear_in_partitioning() -> None:
    (module,) = modules_with_passes(load(SAMPLES / "passes" / "tpu_tp_mlp.tar.xz").modules)
    assert len(tracked_stages(module)) == 130
    reduces, alias, temp = track(module, [subject_of(w) for w in ("all-reduce", "alias", "temp")])
    assert reduces.appears is not None
    assert reduces.appears.after == "tpu-spmd-partitioning"
    assert (reduces.counts[0], reduces.counts[-1]) == (0, 4)
    assert (set(alias.counts), alias.changes) == ({4}, ())
    assert temp.counts[-1] == 93093888
