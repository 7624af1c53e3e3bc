"""Whether a program fits into the memory of its device."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import hlo_lens
from hlo_lens.cli import main
from hlo_lens.load.module import Lazy, ModuleDump, already_read
from hlo_lens.questions.memory.page import verdict_text
from hlo_lens.questions.memory.results import memory_results

SAMPLE = Path(__file__).parents[3] / "sample_dumps" / "tpu" / "tp_mlp"
TOTAL = 160_226_304


def _module() -> ModuleDump:
    (module,) = hlo_lens.load(SAMPLE).modules
    return module


def _memory(module: ModuleDump, limit: int | None) -> tuple[bool | None, int | None]:
    results = memory_results(module.stating(limit_bytes=limit))
    assert results is not None
    return results.statement.fits, results.statement.excess_bytes


@pytest.mark.parametrize(
    ("limit", "expected"), [(TOTAL, (True, 0)), (TOTAL - 1, (False, 1)), (None, (None, None))]
)
def test_what_must_fit_is_compared_with_the_limit(
    limit: int | None, expected: tuple[bool | None, int | None]
) -> None:
    assert _memory(_module(), limit) == expected


def test_an_estimate_near_the_limit_is_not_decided() -> None:
    whole = _module()
    module = ModuleDump(name="m", kind=whole.kind, stage=whole.stage, module_text=whole.module_text)
    estimate = memory_results(module)
    assert estimate is not None
    size = estimate.statement.total_bytes
    assert _memory(module, size * 9 // 10) == (None, None)
    assert _memory(module, size * 11 // 10) == (None, None)
    assert _memory(module, size // 2) == (False, size - size // 2)
    assert _memory(module, size * 2) == (True, 0)


def test_the_device_of_the_topology_gives_the_limit() -> None:
    text = 'platform_version: "TFRT TPU v5 lite\\nBuilt on Nov 5 2026"'
    settings: dict[str, Lazy[str | None]] = {"topology.textproto": already_read(text)}
    results = memory_results(dataclasses.replace(_module(), settings=settings))
    assert results is not None
    statement = results.statement
    assert (statement.fits, statement.limit_bytes) == (True, round(15.75 * 2**30))
    assert (statement.limit_source or "").startswith("v5e: ")


def test_generated_code_counts_where_the_device_of_the_dump_is_nearly_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = "hlo_lens.questions.memory.results.device_memory"
    texts = {}
    for room in (1 << 20, 40 << 20, -(1 << 20)):
        monkeypatch.setattr(home, lambda _, room=room: (TOTAL + room, "v5e: libtpu"))
        results = memory_results(_module())
        assert results is not None
        texts[room] = (results.statement.fits, verdict_text(results.statement))
    code = "generated code of 30 to 39MiB not counted"
    assert list(texts.values()) == [
        (None, f"may not fit: 152.80MiB of 153.80MiB of a v5e, {code}"),
        (True, ""),
        (False, f"does not fit: 152.80MiB of 151.80MiB of a v5e, 1.00MiB too much, {code}"),
    ]


def _run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, [*words])
    return result.exit_code, result.stdout


def test_the_first_line_says_that_a_program_does_not_fit() -> None:
    lines = _run("report", str(SAMPLE), "--limit", "100MiB")[1].splitlines()
    assert lines[2] == "does not fit: 152.80MiB of 100.00MiB, 52.80MiB too much:"
    assert lines[3] == f"hlo-lens fit {SAMPLE} --limit 100MiB"
    text = _run("report", str(SAMPLE), "--limit", "100MiB", "-f", "json")[1]
    (module,) = json.loads(text)["modules"]
    memory = module["memory"]
    assert (memory["fits"], memory["limit_bytes"]) == (False, 100 * 2**20)
    assert memory["limit_source"] == "--limit"
    freed = [one["saves"]["bytes"] or 0 for one in module["findings"]]
    assert freed == sorted(freed, reverse=True)


def test_a_gate_without_a_limit_is_not_decided() -> None:
    assert _run("check", str(SAMPLE), "--fail-on", "memory.fits")[0] == 4
