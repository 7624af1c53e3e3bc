"""Programs of the corpus whose collectives are known."""

from __future__ import annotations

import functools
import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens.questions.collectives.collective import RING, collectives
from hlo_lens.questions.collectives.explanation import explain_collectives
from tests.corpus import CORPUS, needs_corpus

if TYPE_CHECKING:
    from hlo_lens.load.module import ModuleDump

pytestmark = needs_corpus

KNOWN, BUGS = CORPUS / "known", CORPUS / "bugs"
STATED = re.compile(r"#@ (?P<kind>[\w-]+) \S+ \w+ (?P<payload>\d+) (?P<times><?=?[\d?]+)$")


@functools.cache
def _analysis(archive: str, name: str) -> ModuleDump:
    modules = hlo_lens.load(CORPUS / f"{archive}.tar.xz").modules
    return next(one for one in modules if one.name.endswith(name))


@pytest.mark.parametrize("backend", ["cpu", "gpu"])
@pytest.mark.parametrize("name", ["loops", "conds"])
def test_stated_collectives_run_as_often_as_stated(backend: str, name: str) -> None:
    lines = (KNOWN / "prog1.py").read_text().splitlines()
    for row in collectives(_analysis(f"known/p1_{backend}", f"jit_{name}")).collectives:
        stated = STATED.search(lines[(row.source_line or 0) - 1])
        assert stated is not None
        assert (row.kind, row.payload_bytes) == (stated["kind"], int(stated["payload"]))
        bound = "<=" if row.branches else ""
        derived = "?" if row.dynamic_count is None else f"{bound}{row.dynamic_count}"
        assert derived in (stated["times"], "?")


def test_matrix_products_hide_gathers() -> None:
    rows = collectives(_analysis("known/p3_tpu2", "jit_fsdp_default.cl_1003875606")).collectives
    hidden = {row.name for row in rows if row.is_exposed is False}
    assert {"all-gather.42", "all-gather.28"} <= hidden


@pytest.mark.parametrize("name", ["all-gather.46", "all-gather.55", "all-gather.59"])
def test_stray_constraint_is_the_cause(name: str) -> None:
    (why,) = explain_collectives(_analysis("bugs/gpt_badcomm", "jit_train_step"), name)
    assert why.sentences[1].startswith("a sharding constraint at ")
    assert "gpt.py:39" in why.sentences[1]


def test_products_in_steps_are_gathers_and_scatters_of_weights_and_gradients() -> None:
    path = CORPUS / "dumps" / "tpu-v5p-4x4x4" / "transformer" / "1b_fsdp_tp_scan.tar.gz"
    module = next(one for one in hlo_lens.load(path).modules if "train_step" in one.name)
    rings = [row for row in collectives(module).collectives if row.performed_as == RING]
    counts = Counter((row.kind, row.dynamic_count) for row in rings)
    assert counts == {
        ("all-gather", 16): 6,
        ("reduce-scatter", 16): 7,
        ("reduce-scatter", 1): 1,
    }
    assert all(row.parameters for row in rings if row.kind == "all-gather")
    assert {(row.axis, row.group_size) for row in rings} == {("fsdp", 32)}
    sent = [row.wire_bytes_per_device or 0 for row in rings]
    ring = [31 * (row.payload_bytes or 0) // 32 for row in rings]  # and a step too many
    assert all(least < size < 1.1 * least for size, least in zip(sent, ring, strict=True))
