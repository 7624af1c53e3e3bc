"""Compare memory estimates with XLA's assignments, over all dumps of the corpus.

Usage: ``python -m tests.estimate_table [--all] [--backend cpu|gpu|tpu] [--compiled] [-o FILE]``.

Truth is the sum over the allocation lines of a module's ``*-buffer-assignment.txt``, as in XLA's
CompiledMemoryStats: arguments are lines with ``parameter``, outputs those with
``maybe-live-out``, aliased those with both, temporaries those with ``preallocated-temp``; color 5
is host memory and separate. On TPU only color 0 counts as temporary, rounded up to 16 KiB,
and 0 if it has only tuples and integer scalars. The table also has the figures of
``Compiled.memory_analysis()``, from ``truth.json``.

Percentiles are of the nearest rank. The error is that of the temporaries, in percent of the truth.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import re
import sys
import tarfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import hlo_lens
from hlo_lens.analysis.memory.estimate import memory_estimate, why_no_estimate
from hlo_lens.analysis.memory.peak import peaks_of
from hlo_lens.analysis.memory.statement import memory_statement
from hlo_lens.model.hlo.query import tabulate
from tests.corpus import CORPUS, archives

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hlo_lens.analysis.memory.estimate import MemoryEstimate

TPU_PAGE = 16384
FIGURES = ("argument", "output", "alias", "temp")
HOST_FIGURES = tuple(f"host_{name}" for name in FIGURES)
HLO = "after_optimizations.txt"
TARGET = "target_arguments.txt"
ASSIGNMENT = "after_optimizations-buffer-assignment.txt"

_COLOR = re.compile(r", color (\d+)")
_SIZE = re.compile(r"^allocation \d+: size (\d+)")
_VALUE = re.compile(r"^ value: <\d+ (\S+).*?\): (\S+)")
_KEPT_SCALAR = re.compile(r"(?:s\d+|u\d+|pred)\[\]")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One compile.

    Attributes:
        backend: Folder of the dump: backend and topology.
        model: Program.
        variant: Its options.
        module: Stem of its files.
        true: Figure to bytes, from the allocation lines.
        found: Figure to bytes, estimated; empty without an estimate.
        reason: Why there is none.
        told: Figure to bytes, from memory_analysis(); may be empty.
    """

    backend: str
    model: str
    variant: str
    module: str
    true: dict[str, int]
    found: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    told: dict[str, int] = field(default_factory=dict)

    @property
    def error(self) -> float:
        """Error of the temporaries in percent; infinite if the truth is 0."""
        true, found = self.true["temp"], self.found["temp"]
        if true == found:
            return 0.0
        return 100.0 * (found - true) / true if true else math.inf

    @property
    def is_exact(self) -> bool:
        """Whether every figure is exact."""
        return self.found == self.true

    def as_exact(self, *names: str) -> str:
        """Return ``yes`` if all these figures are exact."""
        return "yes" if all(self.found[name] == self.true[name] for name in names) else "no"


def true_figures(lines: Iterable[str], backend: str) -> dict[str, int]:
    """Return the sums over the allocation lines of a buffer assignment."""
    sums = dict.fromkeys((*FIGURES, *HOST_FIGURES), 0)
    is_temp = is_in_memory = False
    for line in lines:
        size = _SIZE.match(line)
        if size is None:
            is_in_memory = is_in_memory or (is_temp and _is_in_memory(line))
            continue
        color = _COLOR.search(line.split("shape |")[0])
        space = int(color[1]) if color else 0
        prefix = "host_" if space == 5 else ""
        kinds = {
            "argument": ", parameter " in line,
            "output": "maybe-live-out" in line,
            "alias": ", parameter " in line and "maybe-live-out" in line,
            "temp": "preallocated-temp" in line and (backend != "tpu" or space in (0, 5)),
        }
        for name in FIGURES:
            sums[prefix + name] += int(size[1]) * kinds[name]
        is_temp = kinds["temp"] and not prefix
    if backend == "tpu":
        sums["temp"] = -(-sums["temp"] // TPU_PAGE) * TPU_PAGE if is_in_memory else 0
    return sums


def _is_in_memory(line: str) -> bool:
    """Whether the line of a value is more than a table or an integer scalar."""
    value = _VALUE.match(line)
    if value is None or value[2].startswith(("(", "token")):
        return False
    if not _KEPT_SCALAR.match(value[2]):
        return True
    return re.search("fusion|reduce", value[1]) is not None


def found_figures(estimate: MemoryEstimate) -> dict[str, int]:
    """Return the same figures of an estimate."""
    statement = memory_statement(
        estimate.layout, peaks_of(estimate.layout), backend=estimate.backend
    )
    device = (statement.argument_bytes, statement.output_bytes, statement.alias_bytes)
    sizes = (*device, estimate.temp_bytes, *statement.host_bytes)
    return dict(zip((*FIGURES, *HOST_FIGURES), sizes, strict=True))


def backend_of(name: str) -> str:
    """Return ``cpu``, ``gpu`` or ``tpu`` of a dump file's name."""
    for backend in ("cpu", "gpu"):
        if f".{backend}_{HLO}" in name or f"{backend}_{HLO}" in name:
            return backend
    return "gpu" if re.search(r"\.sm_[\d.]+a?_gpu_", name) else "tpu"


def cases_of(archive: Path, *, compiled: bool = False) -> Iterator[Case]:
    """Yield the compiles of an archive that have a buffer assignment.

    Args:
        archive: A ``.tar.gz`` of the corpus.
        compiled: Whether to read ``compiled.<job>.txt``, the output of ``Compiled.as_text()``,
            instead of the dumped text, without naming the backend.
    """
    with tarfile.open(archive) as tar:
        members = {member.name: member for member in tar if member.isfile()}

        def read(name: str) -> str:
            file = tar.extractfile(members[name])
            return "" if file is None else file.read().decode(errors="replace")

        truth = next((name for name in members if name.endswith("/truth.json")), None)
        modules = json.loads(read(truth)).get("modules", []) if truth else []
        root = truth.rpartition("/")[0] if truth else ""
        for name in sorted(members):
            if not name.endswith(HLO) or name.removesuffix(HLO) + ASSIGNMENT not in members:
                continue
            stem = Path(name).name
            module = _module_of(modules, stem)
            backend = backend_of(name)
            text_name = f"{root}/compiled.{module.get('job')}.txt" if compiled else name
            if text_name not in members or (compiled and not _is_own(module, stem)):
                continue
            true = true_figures(read(name.removesuffix(HLO) + ASSIGNMENT).splitlines(), backend)
            target = name.removesuffix(HLO) + TARGET
            found, reason = _estimated(
                read(text_name),
                None if compiled else backend,
                None if compiled or target not in members else read(target),
            )
            yield Case(
                backend=archive.relative_to(CORPUS / "dumps").parts[0],
                model=archive.parent.name,
                variant=archive.name.removesuffix(".tar.gz"),
                module=stem.removesuffix("." + HLO),
                true=true,
                found=found,
                reason=reason,
                told=_told(module),
            )


def _module_of(modules: Sequence[dict[str, object]], stem: str) -> dict[str, object]:
    """Return the entry of ``truth.json`` that a file belongs to."""
    for module in modules:
        prefixes = module.get("prefixes") or []
        if isinstance(prefixes, list) and any(stem.startswith(f"{p}.") for p in prefixes):
            return module
    return {}


def _is_own(module: dict[str, object], stem: str) -> bool:
    """Whether a file is of the module itself, not of a module made from a part of it."""
    return f".{module.get('as_text_module_name')}." in stem


def _told(module: dict[str, object]) -> dict[str, int]:
    analysis = module.get("memory_analysis")
    if not isinstance(analysis, dict):
        return {}
    return {name: analysis.get(f"{name}_size_in_bytes", 0) for name in (*FIGURES, *HOST_FIGURES)}


def _estimated(text: str, backend: str | None, target: str | None) -> tuple[dict[str, int], str]:
    """Return the estimated figures of a module's text, and why there are none."""
    module = hlo_lens.parse_hlo(text)
    table = tabulate(module)
    reason = why_no_estimate(table)
    estimate = None if reason else memory_estimate(table, backend=backend, target=target)
    return ({}, reason or "") if estimate is None else (found_figures(estimate), "")


HEADER = (
    "backend", "model", "variant", "module", "temp true", "temp estimated", "error %", "argument",
    "output", "alias", "host", "temp by memory_analysis()",
)  # fmt: skip


def cells(case: Case) -> tuple[str, ...]:
    """Return a case as a row of the table."""
    start = (case.backend, case.model, case.variant, case.module, f"{case.true['temp']:,}")
    told = f"{case.told['temp']:,}" if case.told else ""
    if not case.found:
        return (*start, case.reason, *([""] * 5), told)
    exact = [case.as_exact(name) for name in ("argument", "output", "alias")]
    host = case.as_exact(*HOST_FIGURES)
    return (*start, f"{case.found['temp']:,}", f"{case.error:+.2f}", *exact, host, told)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def percentile(numbers: Sequence[float], part: float) -> float:
    """Return the percentile of nearest rank."""
    ordered = sorted(numbers)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


SUMMARY = (
    "backend", "compiles", "estimated", "all exact", "median |error| %", "90th percentile %",
    "worst %", "temp = memory_analysis()",
)  # fmt: skip


def summary_row(name: str, cases: Sequence[Case]) -> tuple[str, ...]:
    """Return the row of the summary for some cases."""
    known = [case for case in cases if case.found]
    start = (name, str(len(cases)), str(len(known)))
    if not known:
        return (*start, "0", "", "", "", "")
    errors = [abs(case.error) for case in known]
    told = [case for case in known if any(case.told.values())]
    agree = sum(case.told["temp"] == case.found["temp"] for case in told)
    return (
        *start,
        str(sum(case.is_exact for case in known)),
        f"{percentile(errors, 0.5):.2f}",
        f"{percentile(errors, 0.9):.2f}",
        f"{max(errors):.2f}",
        f"{agree} of {len(told)}",
    )


def report(cases: Sequence[Case], *, every: bool) -> str:
    """Return the tables: one row per backend, then the cases, all or those that are not exact."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.backend].append(case)
    rows = [summary_row(name, groups[name]) for name in sorted(groups)]
    rows.append(summary_row("all", cases))
    shown = [case for case in cases if every or not case.is_exact]
    title = "All cases" if every else "Cases that are not exact"
    return (
        f"# Memory estimates\n\n{markdown(SUMMARY, rows)}\n"
        f"## {title}: {len(shown)}\n\n{markdown(HEADER, map(cells, shown))}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(prog="tests.estimate_table", description=__doc__)
    parser.add_argument("--all", action="store_true", help="list every case, also the exact ones")
    parser.add_argument("--backend", choices=("cpu", "gpu", "tpu"), help="only this backend")
    parser.add_argument(
        "--compiled", action="store_true", help="estimate from what Compiled.as_text() said"
    )
    parser.add_argument("-o", "--output", type=Path, help="write there instead of to stdout")
    options = parser.parse_args(arguments)
    found: list[Case] = []
    for archive in archives():
        if archive.relative_to(CORPUS / "dumps").parts[0].startswith(options.backend or ""):
            found += cases_of(archive, compiled=options.compiled)
    out = io.StringIO(report(found, every=options.all))
    if options.output is None:
        sys.stdout.write(out.getvalue())
    else:
        options.output.write_text(out.getvalue(), encoding="utf-8")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main())
