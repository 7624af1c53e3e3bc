"""Real dumps of others: against themselves, between versions of jax, and with planted defects."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from hlo_lens import diff, snapshot
from hlo_lens.questions.snapshots.snapshot_file import Snapshot
from tests.corpus import CORPUS, needs_corpus
from tests.snapshots import peak_sides

DUMPS = CORPUS / "dumps"


def _versions(folder: str) -> list[Path]:
    """Return the dumps of one program by version of jax."""
    found = (DUMPS / folder).glob("jax-*.tar.gz")
    return sorted(found, key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])


VERSIONS = _versions("cpu8/drift_mlp")
COLLECTIVES = _versions("cpu8/drift_collectives")
TWIN = DUMPS / "cpu8" / "bad" / "good_twin.tar.gz"

pytestmark = needs_corpus

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("path", VERSIONS, ids=lambda path: path.name)
def test_a_dump_differs_neither_from_itself_nor_from_its_snapshot(path: object) -> None:
    kept = snapshot(str(path))
    assert isinstance(kept, Snapshot)
    assert diff(str(path), str(path)).identical
    assert diff(kept, str(path)).identical


@pytest.mark.parametrize(("base", "head"), list(pairwise(VERSIONS)), ids=lambda path: path.name)
def test_versions_compare_and_mirror(base: object, head: object) -> None:
    (there,) = diff(str(base), str(head)).modules
    (back,) = diff(str(head), str(base)).modules
    assert there.differences == ()
    assert there.memory is not None
    assert back.memory is not None
    for one, other in zip(there.memory.peaks, back.memory.peaks, strict=True):
        assert {*map(peak_sides, one.changed)} == {peak_sides(r)[::-1] for r in other.changed}
        assert sum(row.delta_bytes for row in one.changed) == one.delta_bytes
    assert there.collectives is not None
    assert back.collectives is not None
    assert {(r.base, r.head, r.count) for r in there.collectives.changed} == {
        (r.head, r.base, r.count) for r in back.collectives.changed
    }


def test_the_missing_donation_is_found() -> None:
    (module,) = diff(TWIN, TWIN.with_name("missing_donation.tar.gz")).modules
    assert module.donations is not None
    changes = {row[0] for row in module.donations.rows()}
    assert (changes, module.donations.row_count) == ({"lost"}, 14)
    assert module.program is not None
    assert (module.program.changed, module.program.added, module.program.removed) == (0, 0, 0)


@pytest.mark.parametrize(("base", "head"), list(pairwise(COLLECTIVES)), ids=lambda path: path.name)
def test_wording_of_shardings_changes_from_version_to_version_and_shardings_do_not(
    base: object, head: object
) -> None:
    for module in diff(str(base), str(head), only=["sharding"]).modules:
        assert module.shardings is not None
        assert (module.shardings.row_count, module.shardings.problem) == (0, "")


EDITS = [
    ("edits/tpu_base", "edits/tpu_unroll", ":23", "loop unrolled"),
    ("edits/tpu_base", "edits/tpu_ln", ":14", "new line"),
    ("edits/tpu_base", "edits/tpu_noremat", "", "rematerialisation gone"),
    ("edits/tpu_base", "edits/tpu_f32mlp", ":14", "activations are f32, were bf16"),
    ("edits/tpu_base", "edits/tpu_nodonate", "", "donation lost"),
    ("bugs/gpt_good", "bugs/gpt_nodonate", "", "donation lost"),
    ("bugs/gpt_good", "bugs/gpt_badcomm", ":39", "P('fsdp', None, 'tp') -> P('fsdp',)"),
    ("bugs/gpt_good", "bugs/gpt_noremat", "", "rematerialisation gone"),
    ("bugs/up_good", "bugs/up_bad", ":8", "new line"),
    ("bugs/remat_good", "bugs/remat_bad", ":113", "sharding constraint added"),
]


@pytest.mark.parametrize(("base", "head", "line", "what"), EDITS, ids=lambda text: str(text))
def test_the_first_cause_is_the_edit(base: str, head: str, line: str, what: str) -> None:
    paths = [str(CORPUS / f"{side}.tar.xz") for side in (base, head)]
    (module,) = [m for m in diff(*paths).modules if not m.identical]
    assert module.lines is not None
    first = module.lines.causes[0]
    assert what in first.what
    assert not line or first.sources[0].endswith(line)


@pytest.mark.parametrize("name", ["axname", "noop"])
def test_other_axis_names_and_comments_are_no_change(name: str) -> None:
    paths = [str(CORPUS / "edits" / f"tpu_{side}.tar.xz") for side in ("base", name)]
    assert diff(*paths).identical
