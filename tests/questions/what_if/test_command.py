"""``hlo-lens what-if``: its page, and what it refuses before a compile."""

from __future__ import annotations

from dataclasses import replace

from click.testing import CliRunner

from hlo_lens.cli import main
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.page import what_if_report
from hlo_lens.questions.what_if.recompiling import Figures, Recompiled, Reproduction

ROW = Recompiled(
    name="f",
    reproduction=Reproduction(is_equal=None),
    base_target="cpu",
    target="v5e:1x1",
    versions={},
    changes=(Change(kind="target", target="v5e:1x1"),),
    own=Figures(),
    base=Figures(),
    predicted=None,
    fits=False,
)


def test_program_that_does_not_fit_names_fit() -> None:
    row = replace(
        ROW,
        reproduction=Reproduction(is_equal=True, compared=11),
        base_target="v5e:2x4",
        shortage=(("available", "15.75G"),),
        needed_bytes=48 << 30,
    )
    report = what_if_report([row], "a dump")
    facts = dict(report.pages[0].facts)
    assert facts["next"] == "hlo-lens fit 'a dump' --target v5e:1x1"


def test_commands_name_the_module_of_a_dump_with_several() -> None:
    row = replace(ROW, dump="new dump", module_option="--module step/module_0001.jit_f")
    (section,) = what_if_report([row], "a dump").pages
    assert [text for label, text in section.facts if label == "next"] == [
        "hlo-lens fit 'a dump' --module step/module_0001.jit_f --target v5e:1x1",
        "hlo-lens diff 'a dump' 'new dump' --module step/module_0001.jit_f",
    ]


def test_modules_of_one_name_are_sections_of_their_own() -> None:
    row = replace(ROW, target="cpu", changes=(Change(kind="donate", target="x"),), fits=None)
    other = replace(row, changes=(Change(kind="donate", target="y"),))
    assert len(what_if_report([row, row], "a dump").pages) == 2
    assert len(what_if_report([row, other], "a dump").pages) == 1


def test_exit_code_is_4_where_there_is_no_program() -> None:
    path = "sample_dumps/cpu/tp_mlp/compiled.txt"
    run = CliRunner().invoke(main, ["what-if", path, "--donate", "params"])
    assert run.exit_code == 4
    assert "before optimizations" in " ".join(run.stdout.split())
