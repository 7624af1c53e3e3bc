"""Archives are read as the folder they were made from; hostile ones are refused."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import pickle
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest

from hlo_lens import HloLensError, UnreadableError, load
from hlo_lens.load import archive as archive_module, files as packed
from tests.load.test_load import hlo, roots, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES = {
    "dump/module_0000.jit_f.before_optimizations.txt": hlo("jit_f", opcode="abs"),
    "dump/module_0000.jit_f.cpu_after_optimizations.txt": hlo("jit_f", opcode="negate"),
    "dump/module_0001.jit_g.before_optimizations.txt": hlo("jit_g", opcode="sine"),
    "dump/module_0001.jit_g.debug_options": 'xla_dump_to: "x"\n',
    "truth.json": "{}",
}


def tar_bytes(files: dict[str, str], mode: str = "w") -> bytes:
    """Return a tar archive of some texts."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload] # any mode
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


def zip_bytes(files: dict[str, str]) -> bytes:
    """Return a zip archive of some texts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


PACKED: dict[str, Callable[[dict[str, str]], bytes]] = {
    "tar": tar_bytes,
    "tar.gz": lambda files: gzip.compress(tar_bytes(files)),
    "tar.xz": lambda files: lzma.compress(tar_bytes(files)),
    "tar.bz2": lambda files: bz2.compress(tar_bytes(files)),
    "zip": zip_bytes,
}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_archive_is_read_as_its_folder_whatever_its_name(
    tmp_path: Path, pack: Callable[[dict[str, str]], bytes]
) -> None:
    path = tmp_path / "from a colleague"
    path.write_bytes(pack(FILES))
    before = sorted(tmp_path.iterdir())
    assert roots(path) == {"module_0000.jit_f": "negate", "module_0001.jit_g": "sine"}
    dump = load(path)
    assert [m.folder for m in dump.modules] == ["dump", "dump"]
    assert dump.modules[0].files[0] == f"{path}/dump/module_0000.jit_f.cpu_after_optimizations.txt"
    assert [s.name for s in dump.modules[0].stages] == [
        "before_optimizations",
        "cpu_after_optimizations",
    ]
    assert dump.modules[0].before is not None
    assert (dump.files, [(a.kind, a.count) for a in dump.skipped]) == (
        5,
        [("text of unknown kind", 1), ("text proto", 1)],
    )
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_module_of_an_archive_can_be_read_in_another_process(
    tmp_path: Path, pack: Callable[[dict[str, str]], bytes]
) -> None:
    path = tmp_path / "a"
    path.write_bytes(pack(FILES))
    module = pickle.loads(pickle.dumps(load(path).modules[0]))
    assert module.hlo.entry.root.opcode == "negate"


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_archive_may_come_from_standard_input(pack: Callable[[dict[str, str]], bytes]) -> None:
    code = "import hlo_lens; print([m.hlo.entry.root.opcode for m in hlo_lens.load('-').modules])"
    run = subprocess.run([sys.executable, "-c", code], input=pack(FILES), capture_output=True)
    assert run.stdout == b"['negate', 'sine']\n", run.stderr


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_single_file_may_be_compressed_in_any_way(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    text = "".join(hlo(f"m{k}") for k in range(3000))
    write(tmp_path, {"a.txt": pack(text.encode()), "b.txt": pack(b"") + pack(hlo().encode()) * 2})
    assert len(load(tmp_path / "a.txt").modules) == 3000
    assert len(load(tmp_path / "b.txt").modules) == 2


def test_dumps_beyond_the_memory_limit_are_kept_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "MOST_KEPT", 200)
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(tar_bytes(FILES)))
    assert roots(path) == {"module_0000.jit_f": "negate", "module_0001.jit_g": "sine"}


def test_member_may_be_compressed_itself(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("module_0000.jit_f.x.txt.gz", gzip.compress(hlo("jit_f").encode()))
    assert list(roots(tmp_path / "a.zip").values()) == ["negate"]


def test_archive_in_an_archive_is_counted_and_not_opened(tmp_path: Path) -> None:
    inner = zip_bytes(FILES)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("module_0000.jit_f.before_optimizations.txt", hlo())
        archive.writestr("inner.zip", inner)
    asides = load(tmp_path / "a.zip").skipped
    assert [(a.kind, a.count, a.example) for a in asides] == [
        ("archive", 1, f"{tmp_path}/a.zip/inner.zip")
    ]


# ---- tricks -------------------------------------------------------------------------------------

TRICKS = ["../a.txt", "dump/../../a.txt", "/etc/a.txt", "C:\\a.txt", "\\\\host\\a", "a\\..\\..\\b"]


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("name", TRICKS)
def test_names_that_point_out_of_the_archive_are_refused(
    tmp_path: Path, name: str, pack: Callable[[dict[str, str]], bytes]
) -> None:
    (tmp_path / "a").write_bytes(pack({**FILES, name: hlo()}))
    with pytest.raises(UnreadableError, match=r"refused: .* points out of the archive") as caught:
        load(tmp_path / "a")
    assert caught.value.exit_code == 3


def with_special(kind: bytes, target: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("dump/special")
        info.type, info.linkname = kind, target
        tar.addfile(info)
        text = hlo().encode()
        info = tarfile.TarInfo("dump/module_0000.jit_f.before_optimizations.txt")
        info.size = len(text)
        tar.addfile(info, io.BytesIO(text))
    return out.getvalue()


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "../x"),
        (tarfile.SYMTYPE, "../dump/x"),
        (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_are_skipped(tmp_path: Path, kind: bytes, target: str) -> None:
    (tmp_path / "a.tar").write_bytes(with_special(kind, target))
    dump = load(tmp_path / "a.tar")
    assert [(a.kind, a.count) for a in dump.skipped] == [("link, device or pipe of an archive", 1)]
    assert len(dump.modules) == 1


@pytest.mark.parametrize("form", ["zip", "tar.xz", "tar.bz2"])
def test_bomb_is_refused(tmp_path: Path, form: str) -> None:
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "a", "w", zipfile.ZIP_BZIP2) as archive:
            archive.writestr("a.txt", b"\0" * (40 << 20))
    else:
        tar = tar_bytes({"a.txt": "\0" * (40 << 20)})
        (tmp_path / "a").write_bytes(lzma.compress(tar) if "x" in form else bz2.compress(tar))
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        load(tmp_path / "a")


@pytest.mark.parametrize("form", ["zip", "tar.gz", "gz"])
def test_deflated_zeros_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(packed, "_DEFLATED_ANYWAY", 1 << 20)
    name = "module_0000.jit_f.before_optimizations.txt"
    text = f"{hlo('jit_f')}{chr(10) * (4 << 20)}"
    data = PACKED[form]({name: text}) if form in PACKED else gzip.compress(text.encode())
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        load(tmp_path / "a")


def test_overlapping_members_are_bounded_by_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "_DEFLATED_ANYWAY", 1 << 20)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", os.urandom(20_000).hex())
        (info,) = archive.filelist
        for number in range(2000):
            copied = zipfile.ZipInfo(f"{number}.txt")
            for name in ("CRC", "compress_size", "file_size", "header_offset", "compress_type"):
                setattr(copied, name, getattr(info, name))
            archive.filelist.append(copied)
    with pytest.raises(UnreadableError, match="unpacks to more than"):
        load(tmp_path / "a.zip")


def test_endless_header_is_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("a.txt")
        info.pax_headers = {"comment": "".join(map(str, range(2_000_000)))}
        tar.addfile(info)
    (tmp_path / "a").write_bytes(gzip.compress(out.getvalue()))
    with pytest.raises(UnreadableError, match="a header is more than"):
        load(tmp_path / "a")


def test_truncated_archive_gives_its_complete_members(tmp_path: Path) -> None:
    text = os.urandom(60_000).hex()
    data = gzip.compress(tar_bytes({**FILES, "last.txt": f"HloModule x, a={text}\n"}))
    (tmp_path / "a.tar.gz").write_bytes(data[: len(data) - 20_000])
    dump = load(tmp_path / "a.tar.gz")
    assert [m.name for m in dump.modules] == ["module_0000.jit_f", "module_0001.jit_g"]
    assert "rest of an archive that ends too early" in {a.kind for a in dump.skipped}


@pytest.mark.parametrize("pack", PACKED.values(), ids=PACKED)
def test_damaged_archive_is_an_error_or_gives_what_is_there(
    tmp_path: Path, pack: Callable[[dict[str, str]], bytes]
) -> None:
    whole = pack(FILES)
    for place in range(0, len(whole), 97):
        data = bytearray(whole)
        data[place : place + 40] = b"\xff" * min(40, len(whole) - place)
        (tmp_path / "a").write_bytes(data)
        with contextlib.suppress(HloLensError):
            for module in load(tmp_path / "a").modules:
                _ = module.hlo


def test_encrypted_member_is_an_error(tmp_path: Path) -> None:
    data = bytearray(zip_bytes({"a.txt": hlo()}))
    central = data.index(b"PK\1\2")
    data[6] |= 1
    data[central + 8] |= 1
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(UnreadableError, match=r"'a\.txt' is encrypted"):
        load(tmp_path / "a.zip")


def test_archives_in_a_folder_are_folders_of_their_names(tmp_path: Path) -> None:
    inside = {k.removeprefix("dump/"): text for k, text in FILES.items()}
    (tmp_path / "host0.tar.gz").write_bytes(PACKED["tar.gz"](inside))
    (tmp_path / "host1.zip").write_bytes(PACKED["zip"](FILES))
    (tmp_path / "weights.zip").write_bytes(zip_bytes({"data/0": "words"}))
    write(tmp_path, {"host2/module_0000.jit_f.before_optimizations.txt": hlo("jit_f")})
    dump = load(tmp_path)
    assert [(m.folder, m.name) for m in dump.modules] == [
        ("host0.tar.gz", "module_0000.jit_f"),
        ("host0.tar.gz", "module_0001.jit_g"),
        ("host1.zip/dump", "module_0000.jit_f"),
        ("host1.zip/dump", "module_0001.jit_g"),
        ("host2", "module_0000.jit_f"),
    ]
    assert all(module.hlo is not None for module in dump.modules)
    asides = {aside.kind: aside.count for aside in dump.skipped}
    assert asides["archive"] == 1  # of what is in it nothing is counted


def test_archive_next_to_its_unpacked_folder_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, FILES)
    (tmp_path / "dump.tar.xz").write_bytes(PACKED["tar.xz"](FILES))
    dump = load(tmp_path)
    assert [m.name for m in dump.modules] == ["module_0000.jit_f", "module_0001.jit_g"]
    asides = {aside.kind: aside.count for aside in dump.skipped}
    assert asides["archive next to its unpacked folder"] == 1


def test_bad_archive_in_a_folder_is_counted_and_hides_no_other(
    tmp_path: Path,
) -> None:
    write(tmp_path, {"module_0000.jit_f.before_optimizations.txt": hlo("jit_f")})
    (tmp_path / "evil.zip").write_bytes(zip_bytes({"../out.txt": hlo("jit_f")}))
    (tmp_path / "cut.zip").write_bytes(zip_bytes(FILES)[:100])
    nested = {**FILES, "inner.zip": "PK\3\4"}
    (tmp_path / "nested.tar").write_bytes(tar_bytes(nested))
    dump = load(tmp_path)
    assert len(dump.modules) == 3
    asides = {aside.kind: aside.count for aside in dump.skipped}
    assert asides["archive that is damaged or refused"] == 2
    assert asides["archive"] == 1


def test_compressed_archives_of_one_folder_share_the_memory_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {k: text for k, text in FILES.items() if k.startswith("dump/module")}
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.tar.gz").write_bytes(PACKED["tar.gz"](texts))
    monkeypatch.setattr(archive_module, "MOST_KEPT", len("".join(texts.values())))
    dump = load(tmp_path)
    assert [m.hlo is not None and m.hlo.name for m in dump.modules] == ["jit_f", "jit_g"] * 3
