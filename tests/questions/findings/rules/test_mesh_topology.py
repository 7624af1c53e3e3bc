"""X004: topologies without wraparound."""

from __future__ import annotations

import pytest

from hlo_lens.load.module import already_read
from hlo_lens.questions.findings.finding import Severity
from hlo_lens.questions.findings.rules.mesh_topology import mesh_topology
from tests.questions.findings.programs import analysis_of_text

TEXT = """HloModule m, is_scheduled=true

ENTRY main {
  x = f32[64]{0} parameter(0)
  ROOT y = f32[64]{0} negate(x)
}
"""
ARGUMENTS = """tpu_topology_args {
  version: TPU_VERSION_VIPERFISH
  chip_config_name: "megacore"
  chips_per_host_bounds { x: 2 y: 2 z: 1 }
  host_bounds { x: 2 y: 2 z: 4 }
  wrap { }
}
"""


def _findings(arguments: str) -> list[tuple[str, Severity | None]]:
    known = analysis_of_text(TEXT)
    known.settings = {"target_arguments.txt": already_read(arguments)}
    return [(one.fix, one.severity) for one in mesh_topology(known)]


def test_a_large_slice_without_wraparound_is_found() -> None:
    fix = 'get_topology_desc("v5p:4x4x4", "tpu", wrap=(True, True, True))'
    assert _findings(ARGUMENTS) == [(fix, Severity.INFO)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("wrap { }", "wrap { x: true y: true z: true }"),
        ("host_bounds { x: 2 y: 2 z: 4 }", "host_bounds { x: 1 y: 2 z: 4 }"),
        ("VIPERFISH", 'VIPERFISH\n  variant: "lite"'),
    ],
)
def test_a_torus_and_a_smaller_slice_have_no_finding(old: str, new: str) -> None:
    assert _findings(ARGUMENTS.replace(old, new)) == []


def test_a_dump_without_target_has_no_finding() -> None:
    assert list(mesh_topology(analysis_of_text(TEXT))) == []
