"""Facts from the dump of a compile on its out-of-memory message."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.sharding.results import sharding_results
from tests import corpus

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = corpus.SAMPLES / "tpu" / "wasteful"
NEW = (
    "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory "
    "required for HLO temporaries ({used}) exceeds available HBM ({capacity}). HLO module: {name}."
)
OLD = "Ran out of memory in memory space hbm. Used {used} of {capacity} hbm."


def needed() -> int:
    (dump,) = hlo_lens.load(FOLDER).modules
    memory = memory_results(dump)
    assert memory is not None
    said = memory.statement
    return said.argument_bytes + said.output_bytes - said.alias_bytes + said.temp_bytes


def mebibytes(size: int) -> str:
    return f"{size / 2**20:.2f}M"


def said(text: str, capsys: pytest.CaptureFixture[str], path: Path) -> dict[str, object]:
    log = path / "oom.txt"
    log.write_text(text + "\n", "utf-8")
    main(["report", str(FOLDER), "--log", str(log), "-f", "json"], standalone_mode=False)
    (message,) = json.loads(capsys.readouterr().out)["log"]["compile_out_of_memory"]
    found = message["dump"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("form", [NEW, OLD])
def test_module_is_found_by_name_or_by_its_bytes(
    form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    size = needed()
    text = form.format(used=mebibytes(size), capacity="1.00M", name="jit_wasteful_step")
    found = said(text, capsys, tmp_path)
    assert (found["module"], found["agrees"]) == ("jit_wasteful_step", True)
    assert found["needed_bytes"] == size


def test_groups_are_the_bytes_of_replication_donation_and_the_peak(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = NEW.format(used=mebibytes(needed()), capacity="1.00M", name="jit_wasteful_step")
    groups = said(text, capsys, tmp_path)["groups"]
    assert isinstance(groups, list)
    (dump,) = hlo_lens.load(FOLDER).modules
    shardings, memory = sharding_results(dump), memory_results(dump)
    assert shardings is not None
    assert memory is not None
    assert memory.peak is not None
    axes = {axis: saved for axis, _, _, saved in shardings.replicated.by_axis.axes}
    assert set(axes) == {"data", "model"}
    by_kind = {kind: [g for g in groups if g["kind"] == kind] for kind in map(kind_of, groups)}
    assert {g["what"]: g["at_least_bytes"] for g in by_kind["replicated"]} == {
        f"replicated along {axis}": saved for axis, saved in axes.items()
    }
    assert by_kind["donation"][0]["buffers"] == 2  # planted: two weights that are not donated
    alive = sum(g["at_most_bytes"] for g in (*by_kind["arguments"], *by_kind["buffers"]))
    assert alive == memory.peak.total_bytes
    assert [g["at_most_bytes"] for g in groups] == sorted(
        (g["at_most_bytes"] for g in groups), reverse=True
    )
    for group in groups:
        assert group["is_enough"] in ("yes", "no", "perhaps")


def kind_of(group: dict[str, str]) -> str:
    return group["kind"]


@pytest.mark.parametrize(
    ("form", "used", "module", "agrees"),
    [
        (NEW, "1.00T", "jit_wasteful_step", False),
        (OLD, "1.00T", None, None),
        (NEW.replace("{name}", "jit_other"), "1.00T", None, None),
    ],
)
def test_dump_of_another_compile_is_reported(
    form: str,
    used: str,
    module: str | None,
    agrees: bool | None,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    text = form.format(used=used, capacity="1.00M", name="jit_wasteful_step")
    found = said(text, capsys, tmp_path)
    assert (found["module"], found["agrees"]) == (module, agrees)
    assert (found["groups"] is None) == (module is None)


def test_page_has_the_facts_from_the_dump(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "oom.txt"
    size = mebibytes(needed())
    text = NEW.format(used=size, capacity="1.00M", name="jit_wasteful_step")
    log.write_text(text, "utf-8")
    main(["report", str(FOLDER), "--log", str(log)], standalone_mode=False)
    out = capsys.readouterr().out
    assert "of arguments, outputs and temporaries, as in the message" in out
    assert "replicated along data" in out
    log.write_text(text.replace("jit_wasteful_step", "jit_f"), "utf-8")
    main(["report", str(FOLDER), "--log", str(log)], standalone_mode=False)
    assert "not known: 0 modules of the dump may be that of the message" in capsys.readouterr().out


def test_page_without_a_dump_has_no_facts_from_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "oom.txt"
    log.write_text(NEW.format(used="2.00M", capacity="1.00M", name="jit_f"), "utf-8")
    main(["report", str(log), "-f", "json"], standalone_mode=False)
    (module,) = json.loads(capsys.readouterr().out)["modules"]
    assert module["log"]["compile_out_of_memory"][0]["dump"] is None
