"""Tests of rules about work."""

from __future__ import annotations

from pathlib import Path

import pytest

import hlo_lens
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.work import (
    lost_batch_axis,
    recomputed_forward,
    repeated_work,
)
from hlo_lens.questions.work.work import work
from tests.corpus import CORPUS, SAMPLES
from tests.questions.findings.programs import findings_of, with_lines

# ---- W001: products that devices repeat, in programs where it is planted and in their clean twi---


REPEATED_SAMPLES = Path(__file__).parents[4] / "sample_dumps"
SOURCE = (REPEATED_SAMPLES / "programs" / "plants.py").read_text("utf-8").splitlines()
PLANTS = {
    "embedding": "add plants.py:{line}=P('data', None, None)",
    "constraint": "drop plants.py:{line}",
    "merged": "add plants.py:{line}=P(None, 'data', None)",
    "specs": None,
    "undivided": "batch=P('data', None, None)",
}
CLEAN = ("embedding", "constraint", "specs", "megatron", "rolled")
BACKENDS = ("cpu", "tpu", "gpu")


def _module(backend: str, name: str) -> hlo_lens.ModuleDump:
    (module,) = hlo_lens.load(REPEATED_SAMPLES / "plants" / backend / f"{name}.tar.xz").modules
    return module


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PLANTS)
def test_repeated_work_is_found_at_the_line_that_loses_the_axis(backend: str, name: str) -> None:
    module = _module(backend, name)
    (found,) = repeated_work(module)
    mark = f"# planted: {name}"
    lines = [k for k, line in enumerate(SOURCE, start=1) if line.endswith(mark)]
    assert "data: 4 devices compute " in found.message or "data out: 4 " in found.message
    assert found.severity in (Severity.ERROR, Severity.WARNING)
    assert found.saves.flops == work(module).repeated_flops
    if lines:
        assert (found.source_file, [found.source_line]) == ("programs/plants.py", lines)
    change = PLANTS[name]
    expected = [] if change is None else [change.format(line=found.source_line)]
    assert [one.target for one in found.changes] == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CLEAN)
def test_nothing_is_found_in_the_clean_twin(backend: str, name: str) -> None:
    module = _module(backend, f"{name}_clean")
    assert list(repeated_work(module)) == []
    found = work(module)
    assert found.flops == found.equal_share_flops
    assert found.repeated_flops == 0


def test_the_gathers_of_the_same_constraint_are_saved_too() -> None:
    found = hlo_lens.lint(
        REPEATED_SAMPLES / "plants" / "cpu" / "constraint.tar.xz", select=["W001"]
    )
    (one,) = found.findings
    assert one.saves.sent_bytes == 384 << 10
    assert one.evidence[0].startswith("C014 follows: the sharding constraint leaves out data")


@pytest.mark.parametrize("backend", ["cpu", "tpu", "gpu"])
def test_the_specs_of_the_shard_map_around_the_products_are_blamed(backend: str) -> None:
    """Dividing an input changes nothing of what its body computes."""
    (module,) = hlo_lens.load(REPEATED_SAMPLES / backend / "wasteful").modules
    (found,) = repeated_work(module)
    assert "specs of shard_map leave model out" in found.message
    assert (found.source_line, found.changes) == (102, ())


# ---- W003: the batch loses its axis, and products contract what it divides -----------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_constraint_after_the_lookup_is_the_fix(backend: str) -> None:
    (found,) = lost_batch_axis(_module(backend, "contracted"))
    assert "activations lose the batch axis data: " in found.message
    line = found.source_line
    assert [one.target for one in found.changes] == [f"add wastes.py:{line}=P('data', None, None)"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ["contracted_clean", "stationary_clean", "megatron_clean"])
def test_activations_that_are_divided_on_purpose_are_not_found(backend: str, name: str) -> None:
    assert list(lost_batch_axis(_module(backend, name))) == []


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not there")
def test_an_axis_of_the_sequence_is_not_that_of_the_batch() -> None:
    """It is gathered before products of tensor parallelism by design."""
    dump = CORPUS / "dumps" / "tpu-v5e-2x4" / "offload" / "acts_host_big.tar.gz"
    modules = [one for one in hlo_lens.load(dump).modules if one.has_hlo]
    assert [found for one in modules for found in lost_batch_axis(one)] == []


def test_the_symptoms_of_a_lost_axis_are_evidence() -> None:
    found = hlo_lens.lint(REPEATED_SAMPLES / "plants" / "gpu" / "contracted.tar.xz").findings
    assert [one.code for one in found] == ["W003"]


# ---- W002: a forward pass that is computed again though its values would fit ---------------------


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


# ---- X002: computations that are in the program many times ---------------------------------------


_DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def _text(copies: int, path: str = "layers_{}/dot") -> str:
    """Return a program of equal products, each of the result of the one before."""
    lines = [
        f"  d{n} = f32[64,64]{{1,0}} dot(d{n - 1}, w), {_DOT}, @{path.format(n)}:9"
        for n in range(1, copies)
    ]
    head = "  d0 = f32[64,64]{1,0} parameter(0)\n  w = f32[64,64]{1,0} parameter(1)\n"
    last = f"  ROOT y = f32[64,64]{{1,0}} negate(d{copies - 1})\n"
    body = head + "\n".join(lines) + "\n" + last
    return with_lines(f"HloModule m, is_scheduled=true\n\nENTRY main {{\n{body}}}\n")


def test_equal_products_of_one_line_are_one_finding() -> None:
    (found,) = findings_of(_text(13), "X002")
    assert found.message.startswith("12 equal products of one line")
    assert (found.source_line, found.severity) == (9, Severity.INFO)


def test_many_copies_in_a_large_program_are_a_warning() -> None:
    (found,) = findings_of(_text(5001), "X002")
    assert found.severity is Severity.WARNING


def test_lines_of_libraries_are_shared_by_all_layers() -> None:
    library = "/env/lib/python3.11/site-packages/flax/linen/linear.py"
    assert findings_of(_text(13).replace('"m.py"', f'"{library}"'), "X002") == ()


def test_a_few_copies_and_the_backward_pass_have_no_finding() -> None:
    assert findings_of(_text(8), "X002") == ()
    assert findings_of(_text(13, "transpose(jvp())/layers_{}/dot"), "X002") == ()
