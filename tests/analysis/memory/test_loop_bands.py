"""Loops of a flattened schedule."""

from __future__ import annotations

from hlo_lens.analysis.module_analysis import ModuleAnalysis
from hlo_lens.api.modules import modules_of
from tests.analysis.memory.train_step import TRAIN_STEP, analysis_of_text
from tests.corpus import SAMPLES


def test_a_band_ends_at_its_loop_and_has_its_trip_count() -> None:
    (dump,) = modules_of(str(SAMPLES / "tpu" / "fsdp_transformer"))
    analysis = ModuleAnalysis(dump)
    bands = analysis.loop_bands
    assert bands is not None
    assert [(band.loop, band.trip_count, band.depth) for band in bands.bands] == [
        ("while.35", 2, 0),
        ("while.34", 2, 0),
    ]
    assert analysis.memory is not None
    schedule = analysis.memory.layout.schedule or ()
    for band in bands.bands:
        assert schedule[band.end] == band.loop
        assert band.start < band.end


def test_a_program_without_loops_has_no_bands() -> None:
    bands = analysis_of_text(TRAIN_STEP).loop_bands
    assert bands is not None
    assert bands.bands == ()
