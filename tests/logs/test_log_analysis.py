"""Results known of one log."""

from __future__ import annotations

from pathlib import Path

import hlo_lens
from hlo_lens.logs.log_analysis import LogAnalysis

LOGS = Path(__file__).parents[2] / "sample_dumps" / "logs"


def _analysis(name: str) -> LogAnalysis:
    return LogAnalysis(name, hlo_lens.parse_log((LOGS / name).read_text("utf-8")))


def test_every_message_has_a_shortage_and_none_a_dump() -> None:
    known = _analysis("tpu_oom_libtpu_0_0_51.txt")
    assert known.log.compile_ooms
    assert len(known.shortages) == len(known.log.compile_ooms)
    assert known.shortages is known.shortages
    assert known.dump_shortages == ()


def test_shardings_are_there_only_where_the_log_has_some() -> None:
    assert _analysis("tpu_oom_libtpu_0_0_51.txt").shardings is None
    shardings = _analysis("custom_partitioning_jax_0_6_2.txt").shardings
    assert shardings is not None
    assert shardings.trail is shardings.trail
    assert shardings.trail.calls
