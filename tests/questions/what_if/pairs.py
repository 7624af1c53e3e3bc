"""Pairs of compiles, before and after a change that a program is written with.

``truths`` compiles both and keeps them by content in a folder; a pair then has the dump before the
change, what to ask what-if for, and the figures that jax gives for the program with the change.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hlo_lens.load.devices import parse_target
from hlo_lens.load.programs import modules_of
from hlo_lens.questions.what_if.combinations import what_if_modules
from hlo_lens.questions.what_if.compiling import Means, toolchain_of
from hlo_lens.questions.what_if.recompiling import Recompiled, figures
from hlo_lens.text.errors import HloLensError
from tests.corpus import ROOT

FIGURES = ("argument", "output", "alias", "temp")
"""Figures of jax's ``memory_analysis()`` that are compared."""
FROM_DUMP = ("total_bytes", "peak_bytes", "wire_bytes_per_device", "flops")
"""Figures that are compared with those of the dump of the whole compile."""
WORK = ROOT / ".what_if"
_PROGRAMS = Path(__file__).with_name("pair_programs.py")
_LINE = 1 + _PROGRAMS.read_text("utf-8").split("# CONSTRAINT\n")[0].count("\n")
_TARGETS = {"cpu": "cpu", "v5e": "v5e:2x4", "v5p": "v5p:2x2x2", "h100": "h100_sxm"}
_SMALLER = {"v5e:2x4": "v5e:2x2", "v5p:2x2x2": "v5p:2x2x1"}
_LARGER = {"v5e:2x4": "v5e:4x4", "v5p:2x2x2": "v5p:2x2x4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compile:
    """One compile of a program.

    Attributes:
        program: Name of the program.
        variant: Arguments of `Variant`.
        target: Name of the target.
        flags: Flags of XLA.
        is_shardy: Whether Shardy partitions it; GSPMD otherwise.
    """

    program: str
    variant: Mapping[str, object] = field(default_factory=dict)
    target: str = "cpu"
    flags: Mapping[str, str] = field(default_factory=dict)
    is_shardy: bool = True

    def request(self) -> dict[str, object]:
        """Return what `compile_pairs` takes, without the folder."""
        target = parse_target(self.target)
        devices = {"topology": target.topology, "topology_options": dict(target.options)}
        if target.backend == "gpu":
            devices["topology"] = target.topology or "1x1x8"
        return {
            "program": self.program,
            "variant": dict(self.variant),
            "flags": dict(self.flags),
            "is_shardy": self.is_shardy,
            "backend": target.backend,
            "gpu_config": target.gpu_config,
            **devices,
        }

    def folder(self, work: Path, toolchain: str) -> Path:
        """Return the folder of its result."""
        text = json.dumps([self.request(), toolchain], sort_keys=True)
        parts = (text.encode(), _PROGRAMS.read_bytes())
        return work / hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A program before and after a change.

    Attributes:
        name: Its name: program, change and target.
        kind: ``donation``, ``sharding``, ``dtype``, ``mesh``, ``target``, ``flag`` or
            ``constraint``.
        device: Name in the columns of the table, that of the target after the change.
        before: The compile without the change.
        after: The compile with it.
        edits: Changes of the program for what-if: kind and value.
    """

    name: str
    kind: str
    device: str
    before: Compile
    after: Compile
    edits: tuple[tuple[str, str], ...] = ()

    @property
    def asked(self) -> dict[str, list[str]]:
        """The change as what-if takes it: values by kind."""
        asked: dict[str, list[str]] = defaultdict(list)
        asked["target"] += [self.after.target] * (self.after.target != self.before.target)
        asked["flag"] += [f"{name}={value}" for name, value in self.after.flags.items()]
        for kind, value in self.edits:
            asked[kind].append(value)
        return asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Both compiles of a pair.

    Attributes:
        pair: The pair.
        dump: Folder of the dump before the change.
        changed: Folder of the dump of the program with it.
        before: Figures before the change, by names of `FIGURES`.
        after: Figures of the program with the change.
        error: Why there are none; empty if there are.
    """

    pair: Pair
    dump: Path
    changed: Path
    before: Mapping[str, int]
    after: Mapping[str, int]
    error: str = ""


def truths(pairs: Sequence[Pair], python: str, work: Path = WORK) -> Iterator[Truth]:
    """Yield both compiles of each pair, from the folder `work` if they were done before.

    Args:
        pairs: The pairs.
        python: Interpreter whose jax compiles.
        work: Folder of the results.
    """
    toolchain = toolchain_of(python)
    wanted = dict.fromkeys(
        (one.folder(work, toolchain), json.dumps(one.request()))
        for pair in pairs
        for one in (pair.before, pair.after)
    )
    missing = [one for one in wanted if "error" in _figures(one[0])]
    if missing:
        requests = [{**json.loads(text), "folder": str(folder)} for folder, text in missing]
        _compile(requests, python)
    for pair in pairs:
        folders = [one.folder(work, toolchain) for one in (pair.before, pair.after)]
        found = [_figures(one) for one in folders]
        error = next((str(one["error"]) for one in found if "error" in one), "")
        yield Truth(
            pair=pair,
            dump=folders[0] / "dump",
            changed=folders[1] / "dump",
            before=found[0],
            after=found[1],
            error=error,
        )


def _figures(folder: Path) -> dict[str, int]:
    """Return the figures of a compile, or its error."""
    file = folder / "figures.json"
    found: dict[str, int] = json.loads(
        file.read_text("utf-8") if file.is_file() else '{"error": ""}'
    )
    return found


def _compile(requests: list[dict[str, object]], python: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests.json"
        file.write_text(json.dumps(requests), "utf-8")
        subprocess.run(
            [python, "-m", "tests.questions.what_if.compile_pairs", str(file)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.DEVNULL,
            check=True,
        )


EQUAL, DIFFER, REFUSED = "equal", "differ", "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What what-if answered for a pair.

    Attributes:
        pair: The pair.
        state: ``equal``, ``differ`` or ``refused``.
        text: What differs, or why there is nothing to compare.
    """

    pair: Pair
    state: str
    text: str = ""


def verdicts(truths: Sequence[Truth], python: str) -> Iterator[Verdict]:
    """Yield the answer to each pair, compiled by an interpreter."""
    for truth in truths:
        if truth.error:
            yield Verdict(pair=truth.pair, state=REFUSED, text=f"the program: {truth.error}")
            continue
        try:
            modules = modules_of(truth.dump)
            answer = what_if_modules(modules, truth.pair.asked, means=Means(python=python))
        except HloLensError as error:
            yield Verdict(pair=truth.pair, state=REFUSED, text=str(error))
            continue
        yield verdict(truth, answer.modules[0])


def verdict(truth: Truth, row: Recompiled) -> Verdict:
    """Compare the row of what-if with the program written with the change."""
    refused = [str(change.why_not) for change in row.changes if not change.applies]
    if row.predicted is None or refused:
        return Verdict(pair=truth.pair, state=REFUSED, text="; ".join((*refused, row.refusal)))
    (module,) = modules_of(truth.changed)
    whole = figures(module)
    names = [f"{name}_bytes" for name in FIGURES]
    known = dict(zip(names, map(truth.after.get, FIGURES), strict=True))
    known |= {name: getattr(whole, name) for name in FROM_DUMP}
    parts = [
        f"{name} {getattr(row.predicted, name)} instead of {value}"
        for name, value in known.items()
        if getattr(row.predicted, name) != value
    ]
    return Verdict(pair=truth.pair, state=DIFFER if parts else EQUAL, text=", ".join(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A change of a program, for some targets; the fields are those of `Pair` and `Compile`."""

    kind: str
    program: str
    targets: str
    after: Mapping[str, object]
    edits: tuple[tuple[str, str], ...]
    before: Mapping[str, object] = field(default_factory=dict)
    is_shardy: bool = True


def _donations() -> Iterator[_Case]:
    """Yield donations, and programs that no longer donate."""
    listed = (
        ("scan", ["state"], "cpu v5e h100"),
        ("manual", ["w"], "cpu v5p"),
        ("adam", ["state"], "cpu v5e h100"),
        ("decode", ["cache"], "cpu v5p h100"),
        ("transformer", ["params", "mu"], "cpu v5e"),
        ("experts", ["params"], "cpu h100"),
        ("convolutions", ["params", "mu"], "cpu v5e"),
        ("embedding", ["params", "mu"], "v5p h100"),
        ("optimizer", ["params", "opt"], "cpu v5e h100"),
        ("stencil", ["plane"], "cpu v5p"),
        ("recurrent", ["params"], "cpu v5e"),
        ("pipeline", ["w"], "cpu h100"),
        ("sampling", ["seen"], "cpu v5e"),
        ("adapters", ["small", "mu"], "cpu v5e"),
    )
    for place, (program, names, targets) in enumerate(listed):
        states = {"states": ("", "all", "part")[place % 3]}
        donated = {**states, "donate": names}
        if program == "adam":
            states, donated = {}, {"donate": names}
        common = {"kind": "donation", "program": program, "is_shardy": place % 4 != 3}
        added = tuple(("donate", name) for name in names)
        yield _Case(**common, targets=targets, before=states, after=donated, edits=added)  # type: ignore[arg-type] # a dict of fields
        if place % 2 == 0:
            removed = tuple(("undonate", f"{name}/**") for name in names)
            if program in ("stencil", "sampling"):
                removed = tuple(("undonate", name) for name in names)
            targets = targets.split()[-1]
            yield _Case(**common, targets=targets, before=donated, after=states, edits=removed)  # type: ignore[arg-type] # as above


_SHARDINGS = (
    ("scan", ["params.w3", "mu.w3"], "P('data','model')", "**/w3", "cpu v5e"),
    ("manual", ["b"], "P('data')", "b", "cpu v5p"),
    ("decode", ["emb"], "P(None,'model')", "params['emb']", "cpu v5e h100"),
    ("decode", ["cache"], "P(('data','model'))", "cache", "cpu v5p"),
    ("transformer", ["params.wo", "mu.wo"], "P(None,'model')", "**/wo", "cpu v5e"),
    ("experts", ["up"], "P(None,None,'model')", "params['up']", "cpu h100"),
    ("convolutions", ["params.two", "mu.two"], "P(None,None,None,'model')", "**/two", "cpu v5e"),
    ("embedding", ["params.emb", "mu.emb"], "P(None,'model')", "**/emb", "cpu v5e h100"),
    ("optimizer", ["grads.w"], "P('model','data')", "grads['w']", "cpu v5p"),
    ("stencil", ["source"], "P('data','model')", "source", "cpu v5e h100"),
    ("recurrent", ["x"], "P(None,('data','model'))", "x", "cpu v5p"),
    ("sampling", ["logits"], "P('data',None)", "logits", "cpu v5e"),
    ("power", ["matrix"], "P('model','data')", "matrix", "cpu h100"),
    ("adapters", ["base.up"], "P('data','model')", "base['up']", "cpu v5p"),
)
"""Program, names of its values, their sharding, a pattern of the same arguments, targets."""
_DONATED = {"decode": ["cache"], "experts": ["params"], "embedding": ["params", "mu"]}
"""Programs that are sharded with donated arguments."""

_DTYPES = (
    ("scan", ["mu.w1", "mu.w2", "mu.w3"], ["state['opt'].mu"], "cpu v5e"),
    ("adam", ["mu"], ["state[1].mu"], "cpu v5e h100"),
    ("decode", ["cache"], ["cache"], "cpu v5p h100"),
    ("transformer", [f"mu.{key}" for key in ("wq", "wk", "wv", "wo", "up", "down")], ["mu"], "v5e"),
    ("experts", ["up", "down"], ["params['up']", "params['down']"], "cpu v5p"),
    ("convolutions", ["mu.one", "mu.two"], ["mu"], "cpu h100"),
    ("embedding", ["mu.emb", "mu.w"], ["mu"], "cpu v5e"),
    ("optimizer", ["mu.w", "nu.w"], ["opt.*['w']"], "cpu h100"),
    ("stencil", ["plane"], ["plane"], "cpu v5e"),
    ("recurrent", ["uz", "uh"], ["params['uz']", "params['uh']"], "cpu v5p"),
    ("pipeline", ["w"], ["w"], "v5e h100"),
    ("sampling", ["logits"], ["logits"], "cpu v5e"),
    ("power", ["matrix"], ["matrix"], "cpu v5p"),
    ("adapters", ["base.up", "base.down"], ["base"], "cpu h100"),
)
"""Program, values stored as bf16, patterns of the same arguments, targets."""


def _storages() -> Iterator[_Case]:
    """Yield other shardings and element types."""
    for place, (program, names, spec, pattern, targets) in enumerate(_SHARDINGS):
        states: dict[str, object] = {"states": "all" if place % 2 else ""}
        if program in _DONATED:  # the results that have the memory follow
            states["donate"] = _DONATED[program]
        is_shardy = place % 4 != 2
        named = () if is_shardy else (("mesh", "data=2,model=4"),)
        yield _Case(
            kind="sharding",
            program=program,
            targets=targets,
            before=states,
            after={**states, "specs": dict.fromkeys(names, spec)},
            edits=(*named, ("shard", f"{pattern}={spec}")),
            is_shardy=is_shardy,
        )
    for place, (program, names, arguments, targets) in enumerate(_DTYPES):
        states = {} if program == "adam" else {"states": ("", "all", "part")[place % 3]}
        yield _Case(
            kind="dtype",
            program=program,
            targets=targets,
            before=states,
            after={**states, "dtypes": dict.fromkeys(names, "bfloat16")},
            edits=tuple(("dtype", f"{name}=bf16") for name in arguments),
            is_shardy=place % 4 != 1,
        )


_MESHES = (
    ("scan", (4, 2), "cpu v5e h100"),
    ("decode", (2, 2), "cpu v5e"),
    ("transformer", (4, 4), "cpu v5e"),
    ("experts", (1, 8), "cpu v5p"),
    ("embedding", (8, 1), "cpu h100"),
    ("optimizer", (4, 4), "v5p h100"),
    ("recurrent", (2, 2), "cpu v5e"),
    ("sampling", (4, 2), "v5e h100"),
    ("adapters", (8, 2), "cpu v5e"),
    ("stencil", (2, 2), "cpu v5p"),
)
"""Program, sizes of the axes data and model, targets."""


def _meshes() -> Iterator[_Case]:
    """Yield other meshes, and constraints that are left out."""
    for place, (program, (data, model), targets) in enumerate(_MESHES):
        states = {"states": ("", "all", "part")[place % 3]}
        yield _Case(
            kind="mesh",
            program=program,
            targets=targets,
            before=states,
            after={**states, "mesh": {"data": data, "model": model}},
            edits=(("mesh", f"data={data},model={model}"),),
        )
    for program, targets in (("scan", "cpu"), ("experts", "v5e")):
        yield _Case(
            kind="constraint",
            program=program,
            targets=targets,
            after={"constraint": "none"},
            edits=(("constraint", f"drop pair_programs.py:{_LINE}"),),
        )


def _pair(case: _Case, device: str) -> Pair:
    """Return the pair of a case for a target."""
    target = after = _TARGETS[device]
    if case.kind == "mesh":
        sizes: Mapping[str, int] = case.after["mesh"]  # type: ignore[assignment] # as written
        count = sizes["data"] * sizes["model"]
        after = {4: _SMALLER, 16: _LARGER}.get(count, {}).get(target, target)
        if target.startswith("h100") and count != 8:
            after = f"h100_sxm:1x1x{count}"
    before = Compile(
        program=case.program, variant=case.before, target=target, is_shardy=case.is_shardy
    )
    changed = replace(before, variant=case.after, target=after)
    values = "+".join(f"{kind} {value}" for kind, value in case.edits)
    return Pair(
        name=f"{case.program} {values} on {device}",
        kind=case.kind,
        device=device,
        before=before,
        after=changed,
        edits=case.edits,
    )


_FLAGS = (
    ("scan", "cpu", "xla_cpu_copy_insertion_use_region_analysis", "true"),
    ("scan", "cpu", "xla_disable_hlo_passes", "fusion"),
    ("experts", "cpu", "xla_disable_hlo_passes", "fusion"),
    ("stencil", "cpu", "xla_disable_hlo_passes", "fusion"),
    ("convolutions", "v5e", "xla_tpu_scoped_vmem_limit_kib", "8192"),
    ("recurrent", "v5e", "xla_tpu_enable_latency_hiding_scheduler", "false"),
    ("decode", "v5p", "xla_tpu_scoped_vmem_limit_kib", "4096"),
    ("decode", "v5p", "xla_tpu_enable_latency_hiding_scheduler", "false"),
    ("embedding", "v5p", "xla_tpu_scoped_vmem_limit_kib", "4096"),
    ("transformer", "h100", "xla_gpu_enable_triton_gemm", "false"),
    ("scan", "h100", "xla_gpu_all_reduce_combine_threshold_bytes", "0"),
    ("embedding", "h100", "xla_gpu_enable_triton_gemm", "false"),
)
"""Program, device, flag and its value."""


def _wholes() -> Iterator[Pair]:
    """Yield pairs of two targets, and with a flag."""
    ways = (("cpu", "v5e"), ("v5e", "h100"), ("h100", "cpu"), ("v5p", "v5e"), ("cpu", "v5p"))
    names = dict.fromkeys(pair.before.program for pair in _edited())
    for place, program in enumerate(names):
        old, new = ways[place % len(ways)]
        before = Compile(program=program, target=_TARGETS[old])
        yield Pair(
            name=f"{program} from {old} to {new}",
            kind="target",
            device=new,
            before=before,
            after=replace(before, target=_TARGETS[new]),
        )
    for program, device, flag, value in _FLAGS:
        before = Compile(program=program, target=_TARGETS[device])
        yield Pair(
            name=f"{program} flag {flag}={value} on {device}",
            kind="flag",
            device=device,
            before=before,
            after=replace(before, flags={flag: value}),
        )


def _edited() -> Iterator[Pair]:
    """Yield the pairs of changes of the program."""
    for case in (*_donations(), *_storages(), *_meshes()):
        yield from (_pair(case, device) for device in case.targets.split())


def pairs() -> tuple[Pair, ...]:
    """Return all pairs."""
    return (*_edited(), *_wholes())
