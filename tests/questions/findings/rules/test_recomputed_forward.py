"""W002: a forward pass that is computed again though its values would fit."""

from __future__ import annotations

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.recomputed_forward import recomputed_forward
from tests.corpus import SAMPLES


def _step(name: str) -> hlo_lens.ModuleDump:
    modules = hlo_lens.load(SAMPLES / "gpu" / name).modules
    return next(one for one in modules if "train_step" in one.name)


def test_a_checkpoint_is_found_where_the_device_has_room() -> None:
    (found,) = recomputed_forward(_step("fsdp_transformer").stating(limit_bytes=16 << 30))
    assert "71% of the forward pass is computed twice" in found.message
    assert (found.severity, found.source_line) == (Severity.INFO, 59)
    assert found.saves.flops is not None


def test_nothing_is_found_without_room_or_checkpoint() -> None:
    small = _step("fsdp_transformer").stating(limit_bytes=256 << 20)
    assert list(recomputed_forward(small)) == []
    assert list(recomputed_forward(_step("tp_mlp").stating(limit_bytes=16 << 30))) == []
