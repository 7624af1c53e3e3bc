"""New dumps of programs compiled again, copied from the cache into a folder of the user."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hlo_lens.text.errors import OutputError

if TYPE_CHECKING:
    from hlo_lens.questions.what_if.recompiled import Recompiled


def refuse_full(output: str | Path | None) -> None:
    """Raise OutputError if there is a folder that is not empty, or something else of its name."""
    if output is None:
        return
    folder = Path(output)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError(f"{folder}: exists and is not an empty folder")


def kept_dumps(found: tuple[Recompiled, ...], folder: Path) -> tuple[Recompiled, ...]:
    """Copy the new dumps into a folder, each into its own if there are several."""
    rows = []
    for place, one in enumerate(found):
        if one.dump is None:
            rows.append(one)
            continue
        home = folder if len(found) == 1 else folder / _label(place, one)
        try:
            shutil.copytree(one.dump, home, dirs_exist_ok=True)
        except (OSError, shutil.Error) as error:
            raise OutputError(f"{home}: cannot be written: {error}") from error
        rows.append(replace(one, dump=str(home)))
    return tuple(rows)


def _label(place: int, one: Recompiled) -> str:
    words = [one.name, *(change.target for change in one.changes)]
    plain = "_".join("".join(c if c.isalnum() or c in ".-" else "-" for c in w) for w in words)
    return f"{place:02}_{plain[:80]}"
