"""Loops of a flattened schedule."""

from __future__ import annotations

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.questions.memory.timeline import loop_bands
from tests.corpus import SAMPLES
from tests.questions.memory.train_step import TRAIN_STEP, analysis_of_text


def test_a_band_ends_at_its_loop_and_has_its_trip_count() -> None:
    (module,) = modules_of(str(SAMPLES / "tpu" / "fsdp_transformer"))
    bands, memory = loop_bands(module), memory_results(module)
    assert [(band.loop, band.trip_count, band.depth) for band in bands] == [
        ("while.35", 2, 0),
        ("while.34", 2, 0),
    ]
    assert memory is not None
    schedule = memory.layout.schedule or ()
    for band in bands:
        assert schedule[band.end] == band.loop
        assert band.start < band.end


def test_a_program_without_loops_has_no_bands() -> None:
    assert loop_bands(analysis_of_text(TRAIN_STEP)) == ()
