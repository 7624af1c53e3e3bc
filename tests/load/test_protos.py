"""Protos: the same report as from text, and errors for damaged ones."""

from __future__ import annotations

import builtins
import gzip
import importlib
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import hlo_lens
from hlo_lens.load import protos
from hlo_lens.questions.memory.results import memory_results
from hlo_lens.text.dump_kinds import DumpKind, proto_message
from hlo_lens.text.errors import DumpSyntaxError, HloLensError, MissingPackageError
from tests.commands import output_of
from tests.protos import PAIRS, text_beside, unpacked

pytest.importorskip("google.protobuf", reason="protobuf is not installed")
pytest.importorskip("jaxlib", reason="jaxlib is not installed")

CPU, TPU = (next(p for p in PAIRS if p.parts[-3] == backend) for backend in ("cpu", "tpu"))


SUGARED = ("computations", "coverage", "instructions", "largest_instructions", "opcode_rows")
"""What differs where jaxlib prints ``slice-start`` and TPU dumps ``async-start, calls=``.

Values of the slices inside the calls then have no instruction in the text, and no live range.
"""


def report_of(path: Path) -> Any:
    (module,) = json.loads(output_of(["report", str(path), "-f", "json"]))["modules"]
    return module


def alone(proto: Path, folder: Path) -> Path:
    """Return a copy of a proto with nothing beside it."""
    return Path(shutil.copy(proto, folder / proto.name))


@pytest.mark.parametrize("proto", PAIRS, ids=lambda p: p.parts[-3])
def test_the_report_is_that_of_the_text_of_the_same_compile(proto: Path, tmp_path: Path) -> None:
    before = next(proto.parent.glob("*before_optimizations.txt"))
    shutil.copy(before, tmp_path)
    paths = (alone(proto, tmp_path), text_beside(proto))
    ours, theirs = map(report_of, paths)
    for path, one in zip(paths, (ours, theirs), strict=True):
        del one["files"], one["memory"]["missing"]
        for finding in one["findings"]:  # with commands on the file
            finding["fix"] = (finding["fix"] or "").replace(str(path), "PATH")
        if proto == TPU:
            for name in (*SUGARED, "opcodes"):
                del one[name]
            del one["memory"]["is_complete"], one["memory"]["unknown_values"]
            for space in one["memory"]["spaces"]:
                del space["fragmentation_bytes"]
    assert ours == theirs


@pytest.mark.parametrize("proto", PAIRS, ids=lambda p: p.parts[-3])
def test_every_allocation_and_value_is_printed_as_by_xla(proto: Path) -> None:
    (dump,) = hlo_lens.load(proto).modules
    assert dump.buffer_assignment is not None
    ours = dump.buffer_assignment.columns.source.text
    beside = text_beside(proto)
    theirs = beside.with_name(f"{beside.stem}-buffer-assignment.txt").read_text("utf-8")
    known = re.sub(
        r", page -?\d+| \(phi\)|, output shape is \|[^|]*\|", "", theirs
    )  # not in protos
    assert ours.strip().splitlines() == known.strip().splitlines()


def wrapped(data: bytes) -> bytes:
    """Return a HloSnapshot with a HloProto inside, and a platform behind it."""
    length, size = len(data), b""
    while True:
        size += bytes((length & 0x7F | (0x80 if length > 0x7F else 0),))
        length >>= 7
        if not length:
            return b"\x0a" + size + data + b"\x22\x03CPU"


def inner(data: bytes) -> bytes:
    """Return the HloModuleProto of a HloProto."""
    found: bytes = protos._classes()["HloProto"].FromString(data).hlo_module
    return found


@pytest.mark.parametrize(
    ("name", "make"),
    [("HloModuleProto", inner), ("HloProto", bytes), ("HloSnapshot", wrapped)],
    ids=["module", "proto", "snapshot"],
)
def test_each_kind_of_message_is_recognized_by_content(
    name: str, make: Any, tmp_path: Path
) -> None:
    data = make(unpacked(CPU))
    assert proto_message(data) == name
    assert proto_message(data[:200]) == name
    file = tmp_path / "some name"
    file.write_bytes(data)
    (dump,) = hlo_lens.load(file).modules
    assert dump.kind is DumpKind.HLO_PROTO
    assert dump.name == "jit_train_step"
    assert dump.hlo is not None
    assert dump.hlo.instruction_count == 355
    assert (dump.buffer_assignment is None) == (name == "HloModuleProto")


def test_a_folder_of_protos_is_read_like_one_of_texts(tmp_path: Path) -> None:
    (tmp_path / CPU.name.removesuffix(".gz")).write_bytes(unpacked(CPU))
    (dump,) = hlo_lens.load(tmp_path).modules
    assert (dump.stage, dump.number) == ("cpu_after_optimizations", 0)
    assert dump.hlo is not None
    results = memory_results(dump)
    assert results is not None
    assert results.statement.source == "buffer-assignment"
    assert results.peak is not None


def test_text_takes_precedence_over_the_proto_next_to_it() -> None:
    (dump,) = hlo_lens.load(TPU.parent).modules
    assert str(text_beside(TPU)) in dump.files
    assert str(TPU) not in dump.files


def test_truncated_proto_is_an_error(tmp_path: Path) -> None:
    data = unpacked(CPU)
    file = tmp_path / "cut.hlo.pb"
    for length in (40, 1000, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:length])
        with pytest.raises(DumpSyntaxError, match="damaged or cut off"):
            hlo_lens.load(file)


def test_damaged_protos_give_a_result_or_a_known_error(tmp_path: Path) -> None:
    data, chance = unpacked(CPU), random.Random(7)
    file = tmp_path / "damaged.hlo.pb"
    for _ in range(60):
        damaged = bytearray(data)
        for _ in range(chance.choice((1, 3, 30))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        file.write_bytes(damaged)
        try:
            for dump in hlo_lens.load(file).modules:
                memory_results(dump)
        except HloLensError:
            continue


def test_bytes_that_only_begin_like_a_proto_are_no_proto() -> None:
    assert proto_message(b"") is None
    assert proto_message(b"\x0a") is None
    assert proto_message(b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff") is None
    assert proto_message(b"\n\nHloModule m\n") is None
    assert proto_message(b"\x0a\x03abc\x1a") is None


def test_error_for_an_incomplete_proto_names_the_missing_part(tmp_path: Path) -> None:
    message = protos._classes()["HloProto"].FromString(unpacked(CPU))
    message.buffer_assignment.logical_buffers.pop()
    file = tmp_path / "contradiction.hlo.pb"
    file.write_bytes(message.SerializeToString())
    with pytest.raises(DumpSyntaxError, match=r"value \d+ is assigned, but missing"):
        hlo_lens.load(file)


def test_error_for_a_module_that_xla_refuses_has_its_reason(tmp_path: Path) -> None:
    message = protos._classes()["HloProto"].FromString(unpacked(CPU))
    message.hlo_module = message.hlo_module.replace(b"\x12\x03add", b"\x12\x03adx")
    file = tmp_path / "opcode.hlo.pb"
    file.write_bytes(message.SerializeToString())
    with pytest.raises(DumpSyntaxError, match=r"cannot be decoded by XLA: .*adx"):
        hlo_lens.load(file)


def test_endlessly_nested_tuples_are_refused(tmp_path: Path) -> None:
    classes = protos._classes()
    message = classes["HloProto"].FromString(unpacked(CPU))
    shape = classes["ShapeProto"](element_type=13)
    for _ in range(150):
        outer = classes["ShapeProto"](element_type=13)
        outer.tuple_shapes.add().CopyFrom(shape)
        shape = outer
    more = classes["HloModuleProto"]()
    more.computations.add().instructions.add().shape.CopyFrom(shape)
    message.hlo_module += more.SerializeToString()
    file = tmp_path / "deep.hlo.pb"
    file.write_bytes(message.SerializeToString())
    with pytest.raises(DumpSyntaxError, match="cannot be decoded"):
        hlo_lens.load(file)


@pytest.mark.parametrize("package", ["google", "jaxlib"])
def test_error_without_a_package_says_what_to_install(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith(package):
            raise ImportError(name)
        return original(name, *rest, **named)

    protos._classes.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingPackageError, match=r"pip install 'hlo-lens\[proto\]'"):
        hlo_lens.load(alone(CPU, tmp_path))


def test_truncated_compressed_proto_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "cut.hlo.pb.gz"
    file.write_bytes(gzip.compress(unpacked(CPU))[:5000])
    with pytest.raises(DumpSyntaxError, match="damaged or cut off"):
        hlo_lens.load(file)
