"""Shardings of parameters and outputs against what jax itself knew of the same compile."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import tarfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st

from hlo_lens.load import load
from hlo_lens.questions.sharding.savings import sharding_results
from hlo_lens.questions.sharding.shard import sharding_spellings
from hlo_lens.shapes.mesh import Mesh
from hlo_lens.shapes.named_sharding import read_partition_spec
from hlo_lens.shapes.shape import Shape
from hlo_lens.shapes.sharding import HloSharding
from tests import corpus
from tests.oracle import xla

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from hlo_lens.questions.sharding.placement import ShardedValue
    from hlo_lens.questions.sharding.savings import ShardingResults
    from hlo_lens.shapes.named_sharding import PartitionSpec

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="jax is not installed"
)


def plain(spec: PartitionSpec, sizes: Mapping[str, int]) -> PartitionSpec:
    """Return a spec without what two spellings of one sharding may differ in.

    That is None at the end, tuples of one axis, and axes of size 1, which V1 and V2 do not show.
    """
    found: list[str | tuple[str, ...] | None] = []
    for entry in spec:
        axes = (entry,) if isinstance(entry, str) else entry or ()
        kept = tuple(axis for axis in axes if sizes.get(axis) != 1)
        found.append(kept[0] if len(kept) == 1 else kept or None)
    while found and found[-1] is None:
        found.pop()
    return tuple(found)


def results_of(path: Path, mesh: Mapping[str, int] | None) -> ShardingResults:
    (dump,) = load(path).modules
    results = sharding_results(dump)
    assert results is not None
    if mesh and not results.table.meshes:  # jax before 0.7 names no axes in its texts
        results = sharding_results(dump.stating(mesh=Mesh.of(mesh)))
    assert results is not None
    return results


def wrong(value: ShardedValue, truth: Mapping[str, Any], spec: str | None) -> list[object]:
    """Return the differences of a value from the truth."""
    found: list[object] = []
    whole, part = value.global_shape, value.device_shape
    if whole is None or list(whole.dimensions) != truth["shape"]:
        found.append(("global shape", str(whole), truth["shape"]))
    if part is None or list(part.dimensions) != truth["shard_shape"]:
        found.append(("device shape", str(part), truth["shard_shape"]))
    if spec is not None and value.sharding is not None:
        mesh = value.mesh
        sizes = {} if mesh is None else dict(zip(mesh.axis_names, mesh.axis_sizes, strict=True))
        ours = None if value.spec is None else plain(value.spec, sizes)
        if ours != plain(read_partition_spec(spec), sizes):
            found.append(("spec", value.spec, spec))
    return found


# ---- our own samples ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    sorted(corpus.SAMPLES.rglob("expect.json")),
    ids=lambda p: "/".join(p.parts[-3:-1]),
)
@pytest.mark.parametrize("stage", ["after", "before"])
def test_samples_agree_with_jax(path: Path, stage: str) -> None:
    truth = json.loads(path.read_text())
    (file,) = path.parent.glob(f"*{stage}_optimizations.txt*")
    results = results_of(file, truth["mesh"])
    parameters = {value.value.number: value for value in results.table.parameters}
    donated = {d.value.value.number for d in results.donations.donations if d.value.value.donation}
    for entry in truth["inputs"]:
        if entry["hlo_parameter"] is None:
            continue
        value = parameters.pop(entry["hlo_parameter"])
        assert wrong(value, entry, entry["spec"]) == []
        assert value.sharding is not None
        assert value.value.name == entry["name"]
        assert (value.value.number in donated) == entry["donated"]
    assert parameters == {}
    for output, entry in zip(results.table.outputs, truth["outputs"], strict=True):
        assert output.global_shape is not None
        assert list(output.global_shape.dimensions) == entry["shape"]


# ---- tutorials ---------------------------------------------------------------------------------

DP_MP = {"dp": 4, "mp": 2}
FSDP = {"dp": 8}
CUSTOM = {"x": 4, "y": 1}

TUTORIAL: list[tuple[Mapping[str, int], PartitionSpec, tuple[int, ...]]] = [
    (DP_MP, (None, None), (8, 4)),
    (DP_MP, ("dp", None), (8, 5)),
    (DP_MP, (None, "mp"), (8, 4)),
    (DP_MP, ("dp", "mp"), (8, 4)),
    (DP_MP, ("mp", None), (4, 5)),
    (DP_MP, ("mp", "dp"), (4, 8)),
    (DP_MP, (None,), (16,)),
    (DP_MP, ("dp",), (8,)),
    (DP_MP, ("mp",), (6,)),
    (DP_MP, (("dp", "mp"),), (16,)),
    (DP_MP, (("mp", "dp"),), (16,)),
    (DP_MP, (("dp", "mp"), None), (32, 16)),
    (DP_MP, (None, ("dp", "mp")), (3, 16)),
    (DP_MP, ("mp", "dp", None, None), (16, 8, 3, 3)),
    (DP_MP, ("dp", "mp", None), (4, 2, 3)),
    (DP_MP, ("dp", None, None), (8, 16, 32)),
    (DP_MP, ("dp", None, "mp"), (8, 16, 32)),
    (DP_MP, (), ()),
    (DP_MP, (), (7, 5)),
    (FSDP, ("dp", None, None), (16, 4, 8)),
    (FSDP, ("dp", None), (16, 8)),
    (FSDP, (None, "dp"), (8, 16)),
    (FSDP, (("dp",), None), (16, 8)),
    (CUSTOM, ("x", None), (20, 16)),
    (CUSTOM, (None, "x"), (16, 20)),
    (CUSTOM, ("x", "y"), (20, 16)),
]
"""The kinds of specs that tutorials on sharding go through, on meshes like theirs."""


@needs_jax
@pytest.mark.parametrize(("mesh", "spec", "shape"), TUTORIAL, ids=str)
def test_specs_of_tutorials_are_as_in_jax(
    mesh: Mapping[str, int], spec: PartitionSpec, shape: tuple[int, ...]
) -> None:
    ours = HloSharding.from_partition_spec(mesh, spec, rank=len(shape))
    text = xla.jax_sharding_text(mesh, spec, len(shape))
    assert str(ours) == text
    value = Shape.parse(f"f32[{','.join(map(str, shape))}]")
    assert ours.shard_shape(value).dimensions == xla.jax_shard_shape(mesh, spec, shape)
    back = HloSharding.parse(text).to_partition_spec(mesh)
    assert back == xla.jax_partition_spec(text, mesh)
    assert back == plain(spec, mesh)
    named = sharding_spellings(ours, Mesh.of(mesh), rank=len(shape))
    for form, spelling in named.spellings:
        assert spelling is not None
        if form == "spec":
            continue
        assert HloSharding.parse(spelling).equivalent(ours)


@needs_jax
@settings(max_examples=50, deadline=None)
@given(st.data())
def test_generated_specs_divide_as_in_jax(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=1, max_size=4))
    mesh = dict(zip("abcd", sizes, strict=False))
    rank = data.draw(st.integers(1, 4))
    dims: list[tuple[str, ...]] = [() for _ in range(rank)]
    for name in data.draw(st.permutations(list(mesh))):
        place = data.draw(st.integers(-1, rank - 1))
        if place >= 0:
            dims[place] = (*dims[place], name)
    spec = tuple(e[0] if len(e) == 1 else e or None for e in dims)
    times = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    counts = [math.prod(mesh[axis] for axis in dim) for dim in dims]
    shape = tuple(count * number for count, number in zip(counts, times, strict=True))
    ours = HloSharding.from_partition_spec(mesh, spec, rank=rank)
    value = Shape.parse(f"f32[{','.join(map(str, shape))}]")
    assert ours.shard_shape(value).dimensions == xla.jax_shard_shape(mesh, spec, shape)
    named = sharding_spellings(ours, Mesh.of(mesh), rank=rank)
    v3 = dict(named.spellings)["v3"]
    assert v3 is not None
    assert HloSharding.parse(xla.v2_text(v3)).equivalent(ours)


# ---- the corpus --------------------------------------------------------------------------------

_WANTED = re.compile(r"truth\.json$|(?:after|before)_optimizations\.txt$")

MOST_BYTES = 8e6
"""Larger texts would take longer than they teach."""


def sharding_of(truth: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return jax's record of a sharding: an object, or a text in files of older versions."""
    told = truth["sharding"]
    if not isinstance(told, str):
        return dict(told)
    hlo = re.fullmatch(r"GSPMDSharding\((\{.*?\})(?:, memory_kind.*)?\)", told)
    spec = re.search(r"spec=((?:PartitionSpec|P)\(.*?\))(?:, memory_kind=\w+)?\)$", told)
    return {"hlo": hlo[1] if hlo else None, "spec": spec[1] if spec else None}


def compare(value: ShardedValue, truth: Mapping[str, Any]) -> list[object]:
    """Return the differences of a parameter or output from truth.json."""
    sharding = sharding_of(truth)
    whole, part = value.global_shape, value.device_shape
    entry = {
        "shape": truth.get("shape", whole and list(whole.dimensions)),
        "shard_shape": sharding.get("shard_shape", part and list(part.dimensions)),
    }
    found = wrong(value, entry, sharding.get("spec"))
    if value.device_bytes != truth.get("shard_bytes", value.device_bytes):
        found.append(("device bytes", value.device_bytes, truth["shard_bytes"]))
    if value.global_bytes != truth.get("global_bytes", value.global_bytes):
        found.append(("global bytes", value.global_bytes, truth["global_bytes"]))
    text = sharding.get("hlo")
    if text and value.sharding and not value.sharding.equivalent(HloSharding.parse(text)):
        found.append(("sharding", value.sharding.text, text))
    return found


def compare_module(results: ShardingResults, truth: Mapping[str, Any]) -> tuple[int, list[object]]:
    """Return how many parameters and outputs were compared, and all differences."""
    pairs: list[tuple[ShardedValue, Mapping[str, Any]]] = []
    parameters = results.table.parameters
    by_number = {(v.value.number, v.value.index): v for v in parameters}
    inputs = truth.get("inputs") or []
    for place, entry in enumerate(inputs):
        number = entry.get("parameter_number") if entry.get("kept") else None
        if "kept" not in entry and len(inputs) == len(parameters):
            number = place
        if number is None:
            continue
        value = by_number.get((number, "")) or by_number.get((0, f"{{{number}}}"))
        if value is not None:
            pairs.append((value, entry))
    outputs = truth.get("outputs") or []
    if len(outputs) == len(results.table.outputs):
        pairs += zip(results.table.outputs, outputs, strict=True)
    found = [(value.value.name, compare(value, entry)) for value, entry in pairs]
    return len(pairs), [pair for pair in found if pair[1]]


def modules_of(folder: Path) -> Iterator[tuple[Path, Mapping[str, int], Mapping[str, Any]]]:
    """Yield the final text of each module with inputs, the mesh and what jax knew of it.

    Where truth.json names no files, as for versions before it did, there is one module.
    """
    (truth_file,) = folder.rglob("truth.json")
    modules = json.loads(truth_file.read_text()).get("modules", [])
    texts = sorted(folder.rglob("*after_optimizations.txt"))
    for module in modules:
        names = [f for f in module.get("files", []) if f.endswith("after_optimizations.txt")]
        files = [text for text in texts if text.name in names[:1]]
        if not module.get("files") and len(texts) == len(modules) == 1:
            files = texts
        meshes = [m for m in module.get("meshes", []) if m["device_ids"] == sorted(m["device_ids"])]
        sizes = zip(meshes[0]["axis_names"], meshes[0]["shape"], strict=True) if meshes else ()
        if files and module.get("inputs"):
            yield files[0], dict(sizes), module


@corpus.needs_corpus
@pytest.mark.parametrize("archive", corpus.some_archives())
def test_corpus_agrees_with_jax(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as tar:
        members = [m for m in tar if m.isfile() and m.size < MOST_BYTES and _WANTED.search(m.name)]
        tar.extractall(tmp_path, members, filter="data")
    compared = 0
    for file, mesh, truth in modules_of(tmp_path):
        count, differences = compare_module(results_of(file, mesh), truth)
        assert differences == []
        compared += count
    if not compared:
        pytest.skip("nothing in it to compare with a dump of its own")
