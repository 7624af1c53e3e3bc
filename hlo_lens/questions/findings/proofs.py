"""Proofs of fixes: what compiles with them saved, kept in the user's cache by digest.

Commands that print findings read stored proofs; only ``lint`` compiles and stores new ones. The
answers of ``fit`` are kept here too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hlo_lens.load.fact import fact
from hlo_lens.text.dump_kinds import BEFORE
from hlo_lens.text.units import flops_text, format_bytes
from hlo_lens.text.user_cache import PROOFS, cache_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hlo_lens.load.module import ModuleDump
    from hlo_lens.questions.findings.finding import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Decrease of figures of one device by a fix, negative where it costs; None if not known.

    Attributes:
        toolchain: Packages that compiled.
        fits: Of a program that did not fit: whether it fits with the fix; None if not known.
        left: Of such a program: bytes that findings could still save with the fix, by code.
    """

    bytes: int | None
    sent_bytes: int | None
    flops: int | None
    toolchain: str = ""
    fits: bool | None = None
    left: Mapping[str, int] | None = None

    @property
    def text(self) -> str:
        figures = (
            ("must fit", self.bytes, format_bytes),
            ("sent in a run", self.sent_bytes, format_bytes),
            ("work", self.flops, flops_text),
        )
        parts = [
            f"{words} {show(abs(part))} {'more' if part < 0 else 'less'}"
            for words, part, show in figures
            if part
        ]
        return ", ".join(parts) or "nothing changes"


@fact
def _digest(module: ModuleDump) -> bytes:
    before = module.hlo if module.stage == BEFORE else module.before
    digest = hashlib.sha256(b"2")  # the version of what is kept
    for text in (before, module.hlo):
        if text is not None:
            digest.update(text.columns.source.text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.digest()


def _file(module: ModuleDump, key: object) -> Path:
    digest = hashlib.sha256(_digest(module) + json.dumps(key).encode())
    return cache_folder(PROOFS, f"{digest.hexdigest()[:32]}.json")


def keep_answer(module: ModuleDump, key: object, fields: Mapping[str, object]) -> None:
    """Keep what compiles showed of a program, by what was asked, if the cache can be written."""
    file = _file(module, key)
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(fields), encoding="utf-8")


def kept_answer(module: ModuleDump, key: object) -> dict[str, Any] | None:
    """Return a kept answer on a program; None without a whole one."""
    if not module.has_program or not cache_folder(PROOFS).is_dir():
        return None
    try:
        return dict(json.loads(_file(module, key).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _key(finding: Finding) -> object:
    return sorted((one.kind, one.target) for one in finding.changes)


def keep(module: ModuleDump, finding: Finding, proof: Proof) -> None:
    """Keep the proof of a finding in the cache."""
    fields = {name: value for name, value in asdict(proof).items() if value is not None}
    keep_answer(module, _key(finding), {"bytes": None, "sent_bytes": None, "flops": None} | fields)


def kept(module: ModuleDump, finding: Finding) -> Proof | None:
    """Return the proof of a finding in the cache; None without a whole one."""
    fields = kept_answer(module, _key(finding))
    with contextlib.suppress(TypeError):
        return None if fields is None else Proof(**fields)
    return None
