"""Loading of files, folders, compressed files and standard input, and its errors."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hlo_lens
from hlo_lens import DumpSyntaxError, UnreadableError, load, load as load_function
from hlo_lens.text.dump_kinds import DumpKind
from tests import corpus

if TYPE_CHECKING:
    from collections.abc import Mapping

packed_module = sys.modules["hlo_lens.load.files"]


def hlo(name: str = "m", entry: str = "main", opcode: str = "negate") -> str:
    """Return the text of a small module."""
    return (
        f"HloModule {name}\n\nENTRY {entry} {{\n  p = f32[8] parameter(0)\n"
        f"  ROOT r = f32[8] {opcode}(p)\n}}\n\n"
    )


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files into a folder and return it."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def roots(path: Path) -> dict[str, str]:
    """Return the opcode of the entry's root of each module that a path holds."""
    found = {}
    for module in load(path).modules:
        assert module.hlo is not None
        assert module.hlo.entry.root is not None
        found[module.name] = module.hlo.entry.root.opcode
    return found


# ---- files --------------------------------------------------------------------------------------


def test_file_is_one_module(tmp_path: Path) -> None:
    path = tmp_path / "any name at all"
    path.write_text(hlo("jit_f"))
    dump = load(path)
    assert dump.path == str(path)
    (module,) = dump.modules
    assert (module.name, module.kind, module.stage) == ("jit_f", DumpKind.HLO, None)
    assert module.files == (str(path),)
    assert module.hlo is not None
    assert module.hlo is module.hlo
    assert module.hlo.path == str(path)
    assert dump.gaps == module.gaps == ()


def test_module_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    write(
        tmp_path, {"module_0003.jit_g.before_optimizations.txt": "ENTRY e {\n  a = f32[] x()\n}\n"}
    )
    (module,) = load(tmp_path / "module_0003.jit_g.before_optimizations.txt").modules
    assert (module.name, module.stage) == ("module_0003.jit_g", "before_optimizations")


def test_file_may_hold_several_modules(tmp_path: Path) -> None:
    path = tmp_path / "compiled.txt"
    path.write_text(hlo("a", opcode="abs") + hlo("b", opcode="sine") + hlo("a", opcode="tanh"))
    modules = load(path).modules
    assert [m.name for m in modules] == ["a", "b", "a"]
    assert [sorted(m.hlo.opcode_counts()) for m in modules if m.hlo] == [
        ["abs", "parameter"],
        ["parameter", "sine"],
        ["parameter", "tanh"],
    ]


def test_log_may_hold_modules(tmp_path: Path) -> None:
    prefix = "I1120 11:50:17.144151     619 dump.cc:579] "
    logged = "".join(f"{prefix}{line}\n" for line in hlo("jit_f").splitlines())
    path = tmp_path / "job.log"
    path.write_text("starting\n" * 20_000 + logged + "done\n")
    (module,) = load(path).modules
    assert module.name == "jit_f"
    assert module.hlo is not None
    assert module.hlo.instruction_count == 2
    assert module.hlo.entry.instructions[0].line == 20_004
    assert (module.gaps, module.hlo.passed_lines) == ((), 20_001)


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", b""),
        ("utf-8-sig", b""),
        ("utf-16", b""),
        ("utf-16-le", b"\xff\xfe"),
        ("utf-16-be", b"\xfe\xff"),
        ("latin-1", b""),
    ],
)
def test_file_may_have_any_encoding(tmp_path: Path, encoding: str, mark: bytes) -> None:
    word = "\u00ff\u00c3" if encoding == "latin-1" else "\u00e9\u4e2d\U0001f600"
    text = hlo().replace("negate(p)", f'negate(p), metadata={{op_name="{word}"}}')
    path = tmp_path / "a.txt"
    path.write_bytes(mark + text.replace("\n", "\r\n").encode(encoding))
    module = load(path).modules[0].hlo
    assert module is not None
    assert module.gaps == ()
    assert module.entry.root is not None
    assert module.entry.root.metadata is not None
    assert module.entry.root.metadata.op_name == (r"\xff\xc3" if encoding == "latin-1" else word)


def test_progress_ends_with_the_whole_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(hlo("a") + hlo("b"))
    seen: list[tuple[int, int]] = []
    load(path, progress=lambda done, size: seen.append((done, size)))
    assert [size for _, size in seen] == [len(hlo("a") + hlo("b"))] * len(seen)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_strict_raises_at_the_first_gap(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(hlo("a") + hlo("b").replace("negate(p)", "negate(p"))
    with pytest.raises(DumpSyntaxError) as caught:
        load(path, strict=True)
    assert (caught.value.path, caught.value.line) == (str(path), 12)
    path.write_text(hlo("a"))
    assert len(load(path, strict=True).modules) == 1


# ---- compressed files ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(1 << 16) - 1, 1 << 16, (1 << 16) + 1, 1 << 17])
def test_members_may_end_at_any_place(tmp_path: Path, size: int) -> None:
    first = io.BytesIO()
    with gzip.GzipFile("x", "wb", fileobj=first) as file:
        file.write(hlo("a").encode())
    padding = b"x" * (size - len(first.getvalue()))
    data = first.getvalue().replace(b"x\0", b"x" + padding + b"\0", 1)  # the name in its header
    assert len(data) == size
    zeros = b"\0" * 1000
    write(tmp_path, {"a.gz": data + gzip.compress(hlo("b").encode()) + zeros})
    assert list(roots(tmp_path / "a.gz")) == ["a", "b"]


def test_truncated_compressed_file_gives_its_beginning(tmp_path: Path) -> None:
    text = "HloModule m\n\nENTRY main {\n" + "".join(
        f"  p{k} = f32[{k}] parameter({k * k * 7919 % 1000})\n" for k in range(2000)
    )
    data = gzip.compress(text.encode() + b"}\n\n")
    write(tmp_path, {"a.gz": data[: len(data) // 2]})
    (module,) = load(tmp_path / "a.gz").modules
    assert module.hlo is not None
    assert module.hlo.is_truncated
    assert 500 < module.hlo.instruction_count < 1999
    assert [i.name for i in module.hlo.instructions] == [
        f"p{k}" for k in range(module.hlo.instruction_count)
    ]


def test_damaged_compressed_file_gives_the_text_before_the_damage(tmp_path: Path) -> None:
    lines = "".join(f"  p{k} = f32[{k * 7919 % 1009}] parameter({k})\n" for k in range(20_000))
    data = bytearray(gzip.compress(f"HloModule m\n\nENTRY main {{\n{lines}}}\n\n".encode()))
    data[len(data) // 2 : len(data) // 2 + 100] = b"\xff" * 100
    write(tmp_path, {"a.gz": bytes(data)})
    module = load(tmp_path / "a.gz").modules[0].hlo
    assert module is not None
    assert module.instruction_count > 1000


def test_file_that_only_begins_like_a_compressed_one_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(b"\x1f\x8b and then no more of it")
    with pytest.raises(UnreadableError, match=r"a\.gz: cannot be unpacked: "):
        load(path)


def test_file_that_unpacks_to_too_much_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"a" * (20 << 20)))
    monkeypatch.setattr(packed_module, "MOST_UNPACKED", 10 << 20)
    with pytest.raises(UnreadableError, match=r"bomb\.gz: unpacks to more than \d+ bytes"):
        load(path)


def test_compressed_zeros_are_binary_data(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(gzip.compress(b"\0" * (20 << 20)))
    with pytest.raises(DumpSyntaxError, match="binary data"):
        load(path)


# ---- standard input -----------------------------------------------------------------------------


class _Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize("packed", [False, True])
def test_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    data = hlo("jit_f").encode()
    monkeypatch.setattr(sys, "stdin", _Stdin(gzip.compress(data) if packed else data))
    dump = load("-")
    assert dump.path == "-"
    assert [(m.name, m.files) for m in dump.modules] == [("jit_f", ("<stdin>",))]
    monkeypatch.setattr(sys, "stdin", _Stdin(b"words"))
    with pytest.raises(DumpSyntaxError, match=r"^<stdin>:1:1: error"):
        load("-")


def test_pipe_is_read_to_its_end() -> None:
    code = "import hlo_lens; print(hlo_lens.load('-').modules[0].hlo.instruction_count)"
    lines = "".join(f"  p{k} = f32[8] parameter({k})\n" for k in range(20_000))
    text = f"HloModule m\n\nENTRY e {{\n{lines}}}\n"
    run = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True
    )
    assert run.stdout == "20000\n"


# ---- what is no HLO -----------------------------------------------------------------------------


def test_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError) as caught:
        load(tmp_path / "none.txt")
    assert str(caught.value) == f"{tmp_path / 'none.txt'}: no such file or folder"
    assert caught.value.exit_code == 3


def test_file_that_may_not_be_read_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    write(tmp_path, {"a.txt": hlo()})
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UnreadableError, match=r"a\.txt: cannot be read: Permission denied"):
        load(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"  \n\n", "the file is empty"),
        (gzip.compress(b"", mtime=0), "the file is empty"),
        (bytes(range(256)) * 20, "this is binary data, neither text nor a proto of XLA"),
        (b"module @jit_f {\n}\n", "this is MLIR without "),
        (b"; ModuleID = 'x'\n", "this is LLVM IR or PTX, not HLO"),
        (b"// Generated by LLVM NVPTX Back-End\n", "this is LLVM IR or PTX, not HLO"),
        (b'xla_dump_to: "/tmp"\n', "this looks like a text proto, not HLO"),
        (b"some words\nand more\n", "expected 'HloModule' or a computation, found no dump of XLA"),
    ],
)
def test_error_for_other_files_names_their_kind(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(DumpSyntaxError) as caught:
        load(path)
    assert caught.value.message.startswith(message)
    assert (caught.value.path, caught.value.line, caught.value.exit_code) == (str(path), 1, 4)


# ---- folders ------------------------------------------------------------------------------------

STAGES = {
    "module_0000.jit_f.before_optimizations.txt": hlo("jit_f", opcode="abs"),
    "module_0000.jit_f.0003.pass.after_a.before_b.txt": hlo("jit_f", opcode="sine"),
    "module_0000.jit_f.after_spmd_partitioner.txt": hlo("jit_f", opcode="cosine"),
    "module_0000.jit_f.cpu_after_optimizations_before_buffer_assignment.txt": hlo(
        "jit_f", opcode="tanh"
    ),
    "module_0000.jit_f.cpu_after_optimizations.txt": hlo("jit_f", opcode="negate"),
    "module_0000.jit_f.after_codegen.txt": hlo("jit_f", opcode="sign"),
}


def test_folder_gives_each_module_in_its_latest_stage(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        {
            **STAGES,
            "module_0001.jit_g.before_optimizations.txt": hlo("jit_g", opcode="floor"),
            "module_0000.jit_f.debug_options": 'xla_dump_to: "x"\n',
            "module_0000.jit_f.cpu_after_optimizations.hlo.pb": b"\n\x01\x02\x12\x0b\x1a" * 99,
            "truth.json": "{}",
        },
    )
    assert roots(folder) == {"module_0000.jit_f": "negate", "module_0001.jit_g": "floor"}
    modules = load(folder).modules
    assert [m.stage for m in modules] == ["cpu_after_optimizations", "before_optimizations"]
    assert [Path(m.files[0]).name for m in modules] == [
        "module_0000.jit_f.cpu_after_optimizations.txt",
        "module_0001.jit_g.before_optimizations.txt",
    ]


@pytest.mark.parametrize(
    ("gone", "opcode"),
    [
        (["cpu_after_optimizations"], "tanh"),
        (["cpu_after_optimizations", "cpu_after_optimizations_before_buffer_assignment"], "sign"),
    ],
)
def test_earlier_stage_takes_the_place_of_a_missing_one(
    tmp_path: Path, gone: list[str], opcode: str
) -> None:
    names = [f"module_0000.jit_f.{stage}.txt" for stage in gone]
    write(tmp_path, {name: text for name, text in STAGES.items() if name not in names})
    assert roots(tmp_path) == {"module_0000.jit_f": opcode}


def test_modules_of_a_folder_are_read_when_asked_for(tmp_path: Path) -> None:
    folder = write(tmp_path, STAGES)
    (module,) = load(folder).modules
    latest = folder / "module_0000.jit_f.cpu_after_optimizations.txt"
    latest.write_text(hlo("jit_f", opcode="later"))
    assert module.hlo is not None
    assert module.hlo.opcode_counts()["later"] == 1
    assert module.hlo is module.hlo


def test_folders_inside_a_folder_are_kept_apart(tmp_path: Path) -> None:
    name = "module_0000.jit_f.before_optimizations.txt"
    write(tmp_path, {f"a/{name}": hlo(opcode="abs"), f"b/c/{name}": hlo(opcode="sine")})
    modules = load(tmp_path).modules
    assert [Path(m.files[0]).parent.name for m in modules] == ["a", "c"]
    assert [sorted(m.hlo.opcode_counts())[0] for m in modules if m.hlo] == ["abs", "parameter"]


def test_file_of_a_folder_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "module_0000.jit_f.before_optimizations.txt": "HloModule jit_f\n\nENTRY e {\n  @@@\n",
            "module_0001.jit_g.before_optimizations.txt": hlo("jit_g"),
            "module_0002.jit_h.before_optimizations.txt.gz": b"\x1f\x8bnothing",
        },
    )
    modules = load(tmp_path).modules
    assert [m.name for m in modules] == ["module_0000.jit_f", "module_0001.jit_g"]
    assert [len(m.gaps) for m in modules] == [2, 0]


@pytest.mark.parametrize("files", [{}, {"a.txt": "words"}, {"b/a.pb": b"\0\1\2" * 99, "c": ""}])
def test_error_for_a_folder_without_dumps_has_the_flags(
    tmp_path: Path, files: dict[str, str | bytes]
) -> None:
    with pytest.raises(UnreadableError) as caught:
        load(write(tmp_path, files))
    assert "no HLO text in it" in str(caught.value)
    assert "--xla_dump_to=DIR" in str(caught.value)
    assert caught.value.exit_code == 3


def test_file_finds_the_text_before_optimizations_next_to_it(tmp_path: Path) -> None:
    folder = write(tmp_path, STAGES)
    (module,) = load(folder / "module_0000.jit_f.cpu_after_optimizations.txt").modules
    assert module.before is not None
    assert module.before.opcode_counts()["abs"] == 1
    (module,) = load(folder / "module_0000.jit_f.before_optimizations.txt").modules
    assert module.before is None


SAMPLE_FOLDERS = sorted({path.parent for path in corpus.sample_hlo()})


@pytest.mark.parametrize("folder", SAMPLE_FOLDERS, ids=lambda p: "/".join(p.parts[-2:]))
def test_folder_of_a_sample_holds_its_program(folder: Path) -> None:
    dump = load(folder)
    assert dump.gaps == ()
    stages = {module.stage for module in dump.modules if module.parts}
    assert all(stage is not None and stage.endswith("after_optimizations") for stage in stages)
    assert len(stages) == 1
    for module in dump.modules:
        assert module.hlo is not None
        assert module.hlo.instruction_count > 10


@pytest.mark.parametrize(
    "path",
    sorted(p for p in corpus.SAMPLES.glob("*/*/*.txt*")),
    ids=lambda p: "/".join(p.parts[-3:]),
)
def test_every_text_of_the_samples_can_be_loaded(path: Path) -> None:
    (module,) = load(path).modules
    assert module.files
    assert str(path) in module.files


# ---- imports ------------------------------------------------------------------------------------

HEAVY = ("lark", "pandas", "networkx", "jax", "jaxlib", "click", "rich")


def _imported(code: str) -> set[str]:
    """Return which of the heavy packages some code imports."""
    check = f"{code}\nimport sys\nprint(*(n for n in {HEAVY!r} if n in sys.modules))"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_loading_other_files_imports_nothing_heavy() -> None:
    code = (
        "import hlo_lens\ntry:\n    hlo_lens.load('/no/such/file')\n"
        "except hlo_lens.UnreadableError:\n    pass"
    )
    assert _imported(code) == set()


def test_reading_hlo_imports_lark_only_for_lines_without_a_pattern(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(hlo())
    code = f"import hlo_lens\nhlo_lens.load({str(path)!r}).modules[0].hlo.entry.root.shape"
    assert _imported(code) == set()
    path.write_text(hlo().replace("negate(p)", "negate(p p)"))
    assert _imported(code) == {"lark"}


def test_public_names_are_those_of_the_contract() -> None:
    names = {"parse_hlo", "load", "HloModule", "HloComputation", "HloInstruction", "Shape"}
    names |= {"HloSharding", "expand_replica_groups", "DumpSyntaxError"}
    assert names <= set(hlo_lens.__all__) <= set(dir(hlo_lens))
    assert all(getattr(hlo_lens, name) is not None for name in hlo_lens.__all__)
    assert load is load_function is hlo_lens.load
    assert callable(hlo_lens.load)


def test_name_that_the_package_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'hlo_lens' has no attribute 'nothing'"):
        _ = hlo_lens.nothing  # type: ignore[attr-defined]
