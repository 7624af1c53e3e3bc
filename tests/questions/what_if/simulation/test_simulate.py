"""Answers of the simulation: figures, bounds and how sure they are."""

from __future__ import annotations

import pytest

from hlo_lens import lint
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.what_if.simulation.simulate import BOUNDS, ESTIMATE, EXACT, simulate
from hlo_lens.questions.what_if.simulation.simulator import MEMORY_FIGURES, Simulator
from hlo_lens.text.errors import UsageError
from tests.corpus import CORPUS, SAMPLES, needs_corpus
from tests.questions.what_if.simulation.programs import SAVED, simulator, step

ARRAY = 4096


def _sample(name: str) -> Simulator:
    found = [one for one in modules_of(SAMPLES / name) if one.buffer_assignment is not None]
    return Simulator(found[0])


@pytest.mark.parametrize("backend", ["cpu", "gpu", "tpu"])
def test_assignment_of_samples_is_that_of_the_dump(backend: str) -> None:
    known = _sample(f"{backend}/fsdp_transformer")
    assert known.is_reproduced
    assert known.slack == (0, 0)


def test_undonating_everything_equals_what_xla_compiled() -> None:
    found = simulate(_sample("cpu/fsdp_transformer"), [("undonate", "**")])
    assert found.basis == EXACT
    assert found.predicted is not None
    assert found.low == found.high == found.predicted
    delta = {name: found.predicted[name] - found.base[name] for name in MEMORY_FIGURES}  # type: ignore[operator]
    assert delta["alias_bytes"] == -2129924
    assert delta["temp_bytes"] == -3366912  # what-if with jax 0.10.2 compiles the same
    assert delta["total_bytes"] == -1236988


def test_donation_that_needs_a_copy_is_bounded() -> None:
    found = simulate(_sample("cpu/wasteful"), [("donate", "**")])
    assert found.basis == BOUNDS
    assert found.predicted is not None
    assert found.low is not None
    assert found.high is not None
    assert found.predicted["temp_bytes"] == (found.base["temp_bytes"] or 0) + 9437184
    for name in MEMORY_FIGURES:
        low, value, high = found.low[name], found.predicted[name], found.high[name]
        assert low is not None
        assert value is not None
        assert high is not None
        assert low <= value <= high
    assert any("XLA copies donated arguments" in note for note in found.notes)


def test_text_without_buffer_assignment_is_an_estimate_unless_its_forms_are_exact() -> None:
    found = simulate(step(), [("donate", "w")])
    assert found.is_reproduced is None
    assert found.basis in (EXACT, ESTIMATE)
    assert found.predicted is not None
    assert found.predicted["alias_bytes"] == ARRAY


def test_stored_type_changes_argument_and_result() -> None:
    found = simulate(step(alias="{0}: (0, {}, may-alias)"), [("dtype", "w=bf16")])
    assert found.basis == ESTIMATE
    assert found.predicted is not None
    assert found.predicted["argument_bytes"] == ARRAY + ARRAY // 2
    assert found.predicted["alias_bytes"] == ARRAY // 2
    assert found.changes[0].effect.startswith("f32 is stored as bf16; so is result{0}")


def test_sharding_divides_the_argument_and_may_gather_it() -> None:
    known = _sample("cpu/wasteful")
    found = simulate(known, [("shard", "embedding=P('data', None)")])
    assert found.basis == BOUNDS
    assert found.predicted is not None
    assert found.high is not None
    saved = (found.base["argument_bytes"] or 0) - (found.predicted["argument_bytes"] or 0)
    assert saved == 8388608
    assert (found.high["temp_bytes"] or 0) > (found.predicted["temp_bytes"] or 0)
    sent = "wire_bytes_per_device"
    assert (found.predicted[sent] or 0) > (found.base[sent] or 0)
    assert found.high[sent] is None


@pytest.mark.parametrize(
    ("sample", "change", "compiled"),
    [
        (
            "cpu/tp_mlp",
            "x=P(('data', 'model'), None)",
            {"temp_bytes": 209752672, "total_bytes": 264311537, "peak_bytes": 264310941},
        ),
        ("cpu/wasteful", "scratch=P(('data', 'model'), None)", {"output_bytes": 21233720}),
        ("cpu/wasteful", "result{3}=P(None, 'model')", {"total_bytes": 48892312}),
    ],
)
def test_compiled_programs_are_inside_the_bounds(
    sample: str, change: str, compiled: dict[str, int]
) -> None:
    found = simulate(_sample(sample), [("shard", change)])
    assert found.low is not None
    assert found.high is not None
    for name, size in compiled.items():
        assert (found.low[name] or 0) <= size <= (found.high[name] or 0)


def test_saved_activation_ends_before_the_peak() -> None:
    found = simulate(simulator(SAVED), [("remat", "model.py:7")])
    assert found.basis == ESTIMATE
    assert found.changes[0].effect == "1 saved value, 4.0KiB, computed again"
    assert found.predicted is not None
    assert (found.predicted["peak_bytes"] or 0) < (found.base["peak_bytes"] or 0)
    refused = simulate(simulator(SAVED), [("remat", "model.py:8")])
    assert refused.predicted is None
    assert "no temporary of model.py:8 lives at the peak" in refused.changes[0].why_not


def test_nothing_applies_without_prediction() -> None:
    found = simulate(step(), [("donate", "nothing")])
    assert found.predicted is None
    assert not found.changes[0].applies


def test_malformed_request_is_refused() -> None:
    with pytest.raises(UsageError):
        simulate(step(), [("dtype", "w=nonsense")])


def test_many_answers_walk_the_module_once() -> None:
    known = step()
    walked = known.walked
    for _ in range(3):
        simulate(known, [("donate", "w")])
    assert known.walked is walked


@needs_corpus
def test_values_whose_results_are_bitcasts_of_another_rank_are_simulated() -> None:
    found = lint(CORPUS / "dumps" / "tpu-v5e-2x4x2" / "collectives")
    assert found.findings
