"""Largest size that fits, from dumps at several sizes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.text.errors import UsageError
from tests.corpus import SAMPLES

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """\
HloModule jit_f, is_scheduled=true, entry_computation_layout={(f32[N,256]{1,0}, f32[256,256]{1,0})->f32[N,256]{1,0}}

ENTRY main {
  x = f32[N,256]{1,0} parameter(0), metadata={op_name="x"}
  w = f32[256,256]{1,0} parameter(1), metadata={op_name="w"}
  y = f32[N,256]{1,0} dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="jit(f)/dot" source_file="f.py" source_line=7}
  a = f32[N,256]{1,0} sine(y), metadata={op_name="jit(f)/sin" source_file="f.py" source_line=8}
  ROOT z = f32[N,256]{1,0} multiply(a, y), metadata={op_name="jit(f)/mul" source_file="f.py" source_line=9}
}
"""  # noqa: E501
KIB = 1024


@pytest.fixture
def dumps(tmp_path: Path) -> list[str]:
    """Return texts of a program at batch 8, 16 and 64; each unit adds 3 KiB."""
    paths = []
    for size in (8, 16, 64):
        path = tmp_path / f"at_{size}.txt"
        path.write_text(PROGRAM.replace("N", str(size)), "utf-8")
        paths.append(str(path))
    return paths


def test_sizes_are_those_of_the_dimension_that_differs(dumps: list[str]) -> None:
    found = hlo_lens.fit(*dumps[:2], scale="batch", limit="1MiB")
    (module,) = found.modules
    assert [one.size for one in module.dumps] == [8, 16]
    assert module.bytes_per_unit == pytest.approx(3 * KIB, rel=0.01)
    assert module.fixed_bytes == pytest.approx(256 * KIB, rel=0.01)
    assert module.largest == pytest.approx(256, abs=2)
    assert any(one.op_name == "x" for one in module.values)


def test_third_dump_checks_the_prediction_of_the_first_two(dumps: list[str]) -> None:
    (module,) = hlo_lens.fit(*dumps, scale="batch").modules
    (check,) = module.checks
    assert check.actual.size == 64
    assert check.error == pytest.approx(0, abs=0.01)
    assert check.predicted.holds(check.actual.total_bytes)


def test_sizes_can_be_given(dumps: list[str]) -> None:
    (module,) = hlo_lens.fit(*dumps[:2], scale="tokens=800,1600").modules
    assert [one.size for one in module.dumps] == [800, 1600]
    assert module.unit == "tokens"


def test_one_dump_twice_has_no_size(dumps: list[str]) -> None:
    with pytest.raises(UsageError, match="--scale batch=8,16"):
        hlo_lens.fit(dumps[0], dumps[0])


def test_dimensions_that_grow_by_other_factors_are_refused(tmp_path: Path) -> None:
    paths = []
    for size, other in ((8, 256), (16, 768)):
        path = tmp_path / f"at_{size}.txt"
        text = PROGRAM.replace("f32[256,256]", f"f32[256,{other}]").replace(
            "[N,256]", f"[N,{other}]"
        )
        path.write_text(text.replace("N", str(size)), "utf-8")
        paths.append(str(path))
    with pytest.raises(UsageError, match="other factors"):
        hlo_lens.fit(*paths)


def test_command_prints_the_largest_and_has_it_in_json(dumps: list[str]) -> None:
    given = ["fit", *dumps, "--scale", "batch", "--limit", "1MiB"]
    run = CliRunner().invoke(main, given)
    assert run.exit_code == 0, run.output
    assert "batch 256 by estimate" in run.stdout
    data = json.loads(CliRunner().invoke(main, [*given, "-f", "json"]).stdout)
    assert data["kind"] == "fit"
    (module,) = data["modules"]
    assert module["fits"] is True
    assert module["checks"][0]["holds"] is True
    assert module["largest_low"] <= module["largest"] <= module["largest_high"]


def test_nothing_fits_exits_with_1(dumps: list[str]) -> None:
    run = CliRunner().invoke(main, ["fit", *dumps[:2], "--limit", "1KiB"])
    assert run.exit_code == 1, run.output


def test_options_of_one_dump_are_refused_for_two(dumps: list[str]) -> None:
    for given in ([*dumps[:2], "--target", "cpu"], [dumps[0], "--scale", "batch"]):
        assert CliRunner().invoke(main, ["fit", *given]).exit_code == 2


def test_dumps_of_different_hardware_are_refused() -> None:
    paths = [str(SAMPLES / backend / "wasteful") for backend in ("cpu", "tpu")]
    with pytest.raises(UsageError, match="different hardware: cpu and tpu"):
        hlo_lens.fit(*paths, scale="batch=1,2")
