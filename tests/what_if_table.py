"""Compile programs again and write how often what-if is right into the handbook.

Usage: ``python -m tests.what_if_table [--python FILE] [--part dumps|pairs|ends] [--set REGEX]
[--install] [--write]``, or ``make what-if-table``.

- ``dumps``: programs of the corpus and the samples, compared with the figures of their dumps. Each
  is compiled by the jax that made it where the interpreter has that, or with ``--install`` by an
  environment in the cache; others are counted as another version.
- ``pairs``: programs before and after a change (`tests.questions.what_if.pairs`), compared with
  what-if's answer.
- ``ends``: the same changes, by compiles that end once memory and collectives are known and by
  whole ones: whether all figures are equal, and the seconds of both.

All compiles are kept by content, in the cache of hlo-lens and in ``.what_if``, so that a run that
was ended goes on where it was. Prints a table for each part, then what is not equal.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hlo_lens.load.programs import modules_of
from hlo_lens.questions.what_if.combinations import what_if_modules
from hlo_lens.questions.what_if.compiling import Means, toolchain_of
from hlo_lens.questions.what_if.environments import environment_python
from hlo_lens.text.errors import HloLensError
from tests.corpus import ROOT, SAMPLES, archives
from tests.questions.what_if.pairs import WORK, Truth, Verdict, pairs, truths, verdicts

TOPIC = ROOT / "hlo_lens/manual/what-if.md"
HEADER = ("backend", "modules", "compiled", "equal", "differ", "refused", "another version")
_MOST_MODULES = 10
_SAMPLE_TARGETS = {"tpu": "v5e:2x4", "gpu": "h100_sxm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A module compiled again.

    Attributes:
        backend: ``cpu``, ``tpu`` or ``gpu``.
        dump: Name of the dump.
        module: Name of the module.
        state: A name of `HEADER` after the first three.
        text: What differs, or why there is nothing to compare.
    """

    backend: str
    dump: str
    module: str
    state: str
    text: str = ""


def dumps(pattern: str) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Yield name, folder and versions of the dumps whose name has a match."""
    for expected in sorted(SAMPLES.glob("*/*/expect.json")):
        name = "/".join(("samples", *expected.parts[-3:-1]))
        if re.search(pattern, name):
            yield name, expected.parent, json.loads(expected.read_text("utf-8"))["versions"]
    for archive in archives():
        name = "/".join(archive.with_suffix("").with_suffix("").parts[-3:])
        if not re.search(pattern, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
            (truth,) = Path(folder).rglob("truth.json")
            versions = json.loads(truth.read_text("utf-8")).get("versions", {})
            yield name, truth.parent / "dump", versions


def rows_of(
    name: str, folder: Path, versions: dict[str, str], means: Means, *, installs: bool
) -> Iterator[Row]:
    """Yield the rows of a dump."""
    backend = re.sub(r"[-\d_].*", "", name.split("/")[1 if name.startswith("samples") else 0])
    toolchain = toolchain_of(means.python).split("\n")
    try:
        modules = modules_of(folder)
    except HloLensError as error:
        yield Row(backend=backend, dump=name, module="", state="refused", text=str(error))
        return
    whole = [one for one in modules if one.has_program][:_MOST_MODULES]
    needed = {f"{key} {versions[key]}" for key in ("jaxlib", "libtpu") if key in versions}
    if not needed <= {line for line in toolchain if backend == "tpu" or "libtpu" not in line}:
        if not installs:
            for one in whole:
                yield Row(backend=backend, dump=name, module=one.name, state="another version")
            return
        wanted = [f"{key}=={versions[key]}" for key in ("jax", "libtpu") if key in versions]
        try:
            means = Means(python=environment_python(",".join(wanted), backend))
        except HloLensError as error:
            yield Row(backend=backend, dump=name, module="", state="refused", text=str(error))
            return
    for one in whole:
        found = what_if_modules([one], {}, means=means, path=name)
        if "does not name its device" in found.modules[0].refusal:
            asked = {"target": (_target_of(name),)}
            found = what_if_modules([one], asked, means=means, path=name)
        row = found.modules[0]
        result = row.known.reproduction
        state = {True: "equal", False: "differ", None: "refused"}[result.is_equal]
        parts = [f"{d.figure} {d.dump} -> {d.recompiled}" for d in result.differences]
        text = "; ".join((*parts, *result.reasons)) or row.refusal
        yield Row(backend=backend, dump=name, module=row.name, state=state, text=text)


def _target_of(name: str) -> str:
    """Return the target in the name of a set: ``tpu-v5e-2x4``; that of all samples for samples."""
    words = name.split("/")[0].split("-")
    if words[0] == "tpu":
        return f"{words[1]}:{words[2]}"
    return words[1] if words[0] == "gpu" else _SAMPLE_TARGETS[name.split("/")[1]]


def table(rows: Sequence[Row]) -> str:
    """Return the table with a row for each backend."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.backend].append(row)
    lines = [HEADER, ["---"] * len(HEADER)]
    for name, group in (*sorted(groups.items()), ("all", list(rows))):
        counts = [sum(row.state == state for row in group) for state in HEADER[3:]]
        lines.append((name, str(len(group)), str(sum(counts[:2])), *map(str, counts)))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


DEVICES = ("cpu", "v5e", "v5p", "h100")


def pairs_table(found: Sequence[Verdict]) -> str:
    """Return the table with a row for each kind of change: equal pairs of all pairs."""
    kinds = dict.fromkeys(one.pair.kind for one in found)
    lines: list[Sequence[str]] = [("change", *DEVICES, "all"), ["---"] * (len(DEVICES) + 2)]
    for kind in (*kinds, "all"):
        rows = [one for one in found if kind in (one.pair.kind, "all")]
        cells = [[one for one in rows if one.pair.device == device] for device in DEVICES]
        lines.append((kind, *(_share(cell) for cell in (*cells, rows))))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _share(found: Sequence[Verdict]) -> str:
    """Return the number of equal pairs of all."""
    return f"{sum(one.state == 'equal' for one in found)} of {len(found)}" if found else ""


_EXAMPLES = {
    "scan donate state on cpu": "state donated, CPU",
    "embedding shard **/emb=P(None,'model') on h100": "embedding divided, H100",
}
"""Pairs for which a sum of sizes is wrong, and their titles."""


def examples_table(found: Sequence[Truth]) -> str:
    """Return the table of figures before and after the changes of `_EXAMPLES`, in MiB."""
    lines: list[Sequence[str]] = [
        ("example", "arguments", "aliased", "temporaries", "in all"),
        ["---"] * 5,
    ]
    for truth, title in (
        (one, title) for name, title in _EXAMPLES.items() for one in found if one.pair.name == name
    ):
        sides = [
            {**side, "all": side["argument"] + side["output"] - side["alias"] + side["temp"]}
            for side in (truth.before, truth.after)
        ]
        cells = [
            f"{sides[0][name] / 2**20:.2f} -> {sides[1][name] / 2**20:.2f} MiB"
            for name in ("argument", "alias", "temp", "all")
        ]
        lines.append((title, *cells))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def topic_text(topic: str, made: str) -> str:
    """Return the handbook's topic with a table in place of the one with the same first cells."""
    head = " | ".join(made.split("\n")[0].split(" | ")[:2])
    before, found, rest = topic.partition(f"{head} |")
    if not found:
        raise SystemExit(f"{TOPIC} has no table {head}")
    return f"{before}{made}\n{rest.partition(chr(10) * 2)[2]}"


def dumps_part(options: argparse.Namespace) -> str:
    """Return the table of dumps; print what is not equal."""
    found: list[Row] = []
    means = Means(python=options.python)
    for name, folder, versions in dumps(options.set):
        for row in rows_of(name, folder, versions, means, installs=options.install):
            found.append(row)
            if row.state != "equal":
                _print(f"{row.state}: {row.dump} {row.module}: {row.text}")
    return table(found)


def pairs_part(options: argparse.Namespace) -> str:
    """Return the table of pairs; print what is not equal."""
    chosen = [pair for pair in pairs() if re.search(options.set, pair.name)]
    found, made = [], list(truths(chosen, options.python, options.work))
    if options.write and not options.set:
        _write(examples_table(made))
    for verdict in verdicts(made, options.python):
        found.append(verdict)
        if verdict.state != "equal":
            _print(f"{verdict.state}: {verdict.pair.name}: {verdict.text}")
    return pairs_table(found)


def ends_part(options: argparse.Namespace) -> str:
    """Return the table of compiles that end early and whole ones; print what is not equal."""
    chosen = [pair for pair in pairs() if re.search(options.set, pair.name)]
    counts: dict[str, list[float]] = defaultdict(lambda: [0, 0, 0.0, 0.0])
    for truth in truths(chosen, options.python, options.work):
        rows = []
        for is_full in (False, True):
            means = Means(python=options.python, is_full=is_full)
            try:
                answer = what_if_modules(modules_of(truth.dump), truth.pair.asked, means=means)
            except HloLensError as error:
                _print(f"{truth.pair.name}: {error}")
                break
            rows.append(answer.modules[0])
        else:
            early, whole = rows
            is_equal = early.predicted is not None and early.predicted == whole.predicted
            if not is_equal or early.base != whole.base:
                _print(f"differ: {truth.pair.name}: {early.predicted} {whole.predicted}")
            parts = (1, is_equal, early.shown.seconds, whole.shown.seconds)
            for name in (truth.pair.device, "all"):
                counts[name] = [a + b for a, b in zip(counts[name], parts, strict=True)]
    lines = [
        ("target", "compiles", "equal to the whole compile", "seconds of each", "of whole ones"),
        ["---"] * 5,
    ]
    for name, (count, equal, seconds, whole_seconds) in counts.items():
        times = (f"{one / count:.1f}" for one in (seconds, whole_seconds))
        lines.append((name, f"{count:.0f}", f"{equal:.0f}", *times))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _write(made: str) -> None:
    TOPIC.write_text(topic_text(TOPIC.read_text("utf-8"), made), "utf-8")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


PARTS = {"dumps": dumps_part, "pairs": pairs_part, "ends": ends_part}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables."""
    parser = argparse.ArgumentParser(prog="tests.what_if_table", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter whose jax compiles")
    parser.add_argument("--part", choices=[*PARTS], action="append", help="one table; else all")
    parser.add_argument("--set", default="", help="names of dumps or pairs: a regular expression")
    parser.add_argument("--install", action="store_true", help="install other versions of jax")
    parser.add_argument("--work", type=Path, default=WORK, help="folder of the pairs")
    parser.add_argument("--write", action="store_true", help="write the handbook's tables")
    options = parser.parse_args(arguments)
    versions = ", ".join(toolchain_of(options.python).split("\n"))
    _print(f"compiled by {versions}")
    for part in options.part or PARTS:
        made = PARTS[part](options)
        _print(f"\n{made}")
        if options.write:
            _write(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
