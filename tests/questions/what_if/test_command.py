"""``hlo-lens what-if``: its page, and what it refuses before a compile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.load.devices import CPU, parse_target
from hlo_lens.questions.what_if.compiling import Compilation
from hlo_lens.questions.what_if.edits import Change
from hlo_lens.questions.what_if.page import what_if_report
from hlo_lens.questions.what_if.recompiling import Base, Figures, Recompiled

PATH = "sample_dumps/cpu/wasteful"
(DUMP,) = hlo_lens.load(PATH).modules
BASE = Base(dump=DUMP, program=None, target=CPU, own=Figures())
TOO_SMALL = Compilation(dump=Path(), step="compile", error="x", shortage=(("available", "1.0G"),))
ROW = Recompiled(
    known=BASE,
    changes=(Change(kind="target", target="v5e:1x1"),),
    target=parse_target("v5e:1x1"),
    again=TOO_SMALL,
)


def test_program_that_does_not_fit_names_fit() -> None:
    (section,) = what_if_report([ROW], "a dump").pages
    assert dict(section.facts)["next"] == "hlo-lens fit 'a dump' --target v5e:1x1"
    assert dict(section.facts)["available"] == "1.0G"


def test_commands_name_the_module_of_a_dump_with_several() -> None:
    dump = replace(DUMP, folder="step")
    dump.is_only = False
    row = replace(ROW, known=replace(BASE, dump=dump), dump="new dump")
    (section,) = what_if_report([row], "a dump").pages
    option = dump.module_option
    assert option.startswith("--module step/")
    assert [text for label, text in section.facts if label == "next"] == [
        f"hlo-lens fit 'a dump' {option} --target v5e:1x1",
        f"hlo-lens diff 'a dump' 'new dump' {option}",
    ]


def test_exit_code_is_4_where_there_is_no_program() -> None:
    path = "sample_dumps/cpu/tp_mlp/compiled.txt"
    run = CliRunner().invoke(main, ["what-if", path, "--donate", "params"])
    assert run.exit_code == 4
    assert "before optimizations" in " ".join(run.stdout.split())
