"""Inputs of tests: our own samples, and real dumps beside the checkout if they exist."""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "sample_dumps"
SHARED = ROOT.parent / "shared"
CORPUS = SHARED / "corpus"

WRITE = os.environ.get("HLO_LENS_GOLDEN") == "write"
"""Whether expected outputs are rewritten, in golden files and documents."""

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the corpus of real inputs is not beside this checkout"
)


def read(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip'ed."""
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def sample_hlo() -> list[Path]:
    """Return the HLO texts of our own samples."""
    found = [*SAMPLES.rglob("*_optimizations.txt*"), *SAMPLES.rglob("compiled.txt")]
    return sorted(found)


def corpus_hlo() -> list[Path]:
    """Return the HLO texts of the corpus in files of their own."""
    if not CORPUS.is_dir():
        return []
    found = [p for p in (CORPUS / "hlo").rglob("*") if p.is_file() and p.suffix != ".jsonl"]
    found += (CORPUS / "reference").rglob("*_optimizations.txt")
    found += (SHARED / "seeds").glob("002_*")
    return sorted(found)


def archives() -> list[Path]:
    """Return the archives of whole dump folders in the corpus."""
    return sorted((CORPUS / "dumps").rglob("*.tar.gz")) if CORPUS.is_dir() else []


def some_archives() -> list[object]:
    """Return the archives as parameters of a test; `make thorough` alone takes all of them."""
    return [
        pytest.param(
            path,
            id="/".join(path.parts[-3:]),
            marks=() if number % 8 == 0 else pytest.mark.thorough,
        )
        for number, path in enumerate(sorted(archives(), key=lambda path: path.stat().st_size))
    ]


def archived_hlo(archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each HLO text in an archive."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.isfile() or not member.name.endswith(".txt"):
                continue
            file = tar.extractfile(member)
            if file is None:
                continue
            head = file.read(64)
            if head.lstrip().startswith(b"HloModule"):
                yield member.name, head + file.read()
