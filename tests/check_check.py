"""Plant a type error and a layer breach in a copy of the checkout; the checks must see them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
PLANTS = {
    "mypy": ("hlo_lens/text/planted.py", '"""Planted."""\n\nCOUNT: int = "three"\n', ["mypy"]),
    "import-linter": (
        "hlo_lens/text/planted.py",
        '"""Planted."""\n\nfrom hlo_lens import hlo\n\n__all__ = ["hlo"]\n',
        ["lint-imports", "--no-cache"],
    ),
    "ruff": ("hlo_lens/text/planted.py", "import os\n", ["ruff", "check", "."]),
}


def passes(folder: Path, command: list[str]) -> bool:
    """Whether a check passes in a folder."""
    tool, *arguments = command
    done = subprocess.run(
        [str(BIN / tool), *arguments], cwd=folder, capture_output=True, check=False
    )
    return done.returncode == 0


def main() -> None:
    """Fail unless every check passes without its plant and fails with it."""
    for name, (file, text, command) in PLANTS.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "checkout"
            shutil.copytree(
                ROOT, folder, ignore=shutil.ignore_patterns(".venv*", ".*_cache", ".git")
            )
            if not passes(folder, command):
                sys.exit(f"{name} fails before anything is planted")
            (folder / file).write_text(text)
            if passes(folder, command):
                sys.exit(f"{name} does not see {file}")
    sys.stdout.write("the checks can fail\n")


if __name__ == "__main__":
    main()
