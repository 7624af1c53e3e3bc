"""Origins against programs whose lines are known."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.load import load
from hlo_lens.program.origins import Basis
from hlo_lens.program.summary import hlo_text
from hlo_lens.questions.collectives.collective import collectives
from hlo_lens.questions.memory.peak import UNATTRIBUTED
from hlo_lens.questions.memory.results import peak_by_source
from tests import corpus

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

MOST_UNATTRIBUTED = 0.05
"""Most of the bytes at the peak that may have no origin."""

BUGS = corpus.CORPUS / "bugs"
PROGRAMS = sorted(path.name for path in BUGS.glob("*.tar.xz"))
KNOWN_LINE = re.compile(r"#@ ([\w-]+) ")


def _steps(path: str) -> list[ModuleDump]:
    return [dump for dump in load(path).modules if dump.hlo is not None]


@corpus.needs_corpus
@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_at_the_peak_have_an_origin(name: str) -> None:
    for known in _steps(str(BUGS / name)):
        by_source = peak_by_source(known)
        assert by_source is not None
        sizes = {group.group: group.size_bytes for group in by_source.groups}
        assert sizes.get(UNATTRIBUTED, 0) <= MOST_UNATTRIBUTED * by_source.total_bytes


@corpus.needs_corpus
def test_saved_activations_of_a_layer_without_remat_have_lines_of_the_layer() -> None:
    found = max(
        _steps(str(BUGS / "gpt_noremat.tar.xz")), key=lambda one: len(hlo_text(one).columns)
    )
    by_source = peak_by_source(found)
    assert by_source is not None
    lines = [str(row[0]).rpartition("/")[2] for row in by_source.rows()]
    assert lines[:2] == ["gpt.py:37", "gpt.py:29"]  # gelu, attention scores
    assert not any("axes_scan" in line for line in lines)


@corpus.needs_corpus
@pytest.mark.parametrize("name", ["p1_cpu", "p1_gpu"])
def test_collectives_have_the_lines_that_ask_for_them(name: str) -> None:
    source = (corpus.CORPUS / "known" / "prog1.py").read_text("utf-8").splitlines()
    asked = {number for number, line in enumerate(source, 1) if KNOWN_LINE.search(line)}
    one_device = {n for n, line in enumerate(source, 1) if '"one"' in line}
    for known in _steps(str(corpus.CORPUS / "known" / f"{name}.tar.xz")):
        for one in collectives(known).collectives:
            if one.origin_basis != Basis.OWN:
                continue
            assert one.source_file is not None
            assert PurePath(one.source_file).name == "prog1.py"
            assert one.source_line in asked | one_device, one.name


@corpus.needs_corpus
def test_gathers_of_scanned_weights_have_the_line_that_uses_the_weights() -> None:
    path = corpus.CORPUS / "known" / "p3_tpu2.tar.xz"
    found = hlo_lens.collectives(str(path), module="fsdp_async").collectives
    in_loop = [one for one in found if one.loop_path and one.kind == "all-gather"]
    assert in_loop
    assert {one.source_line for one in in_loop} == {16}
