"""Build sdist and wheel, compare their contents with the checkout, and use the wheel alone."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = ROOT / "sample_dumps" / "cpu" / "tp_mlp"


def run(*command: str | Path, cwd: Path) -> str:
    """Return the output of a command; raises with its output if it fails."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def build(folder: Path) -> Path:
    """Return a wheel that was built from an sdist."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check_contents(wheel: Path) -> None:
    """Fail unless the wheel holds each grammar, module and topic of the checkout, and no tests."""
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {f"hlo_lens/_grammars/{p.name}" for p in (ROOT / "grammars").glob("*.lark")}
    wanted |= {str(p.relative_to(ROOT)) for p in (ROOT / "hlo_lens").rglob("*.py")}
    wanted |= {f"hlo_lens/manual/{p.name}" for p in (ROOT / "hlo_lens" / "manual").glob("*.md")}
    assets = ROOT / "hlo_lens" / "questions" / "report" / "html" / "assets"
    wanted |= {str(p.relative_to(ROOT)) for p in assets.rglob("*") if p.is_file()}
    wanted |= {"hlo_lens/py.typed", "hlo_lens/__init__.pyi"}
    wanted.add(f"hlo_lens-{wheel.name.split('-')[1]}.dist-info/licenses/LICENSE")
    missing = sorted(wanted - names)
    if missing:
        sys.exit(f"missing in {wheel.name}: {missing}")
    extra = sorted(n for n in names if not n.startswith(("hlo_lens/", "hlo_lens-")))
    if extra:
        sys.exit(f"not meant to be in {wheel.name}: {extra}")


def check_use(wheel: Path, folder: Path) -> None:
    """Fail unless the wheel, installed without anything else, reports on a sample."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=folder)
    out = run(folder / "venv" / "bin" / "hlo-lens", "report", SAMPLE, cwd=folder)
    again = run(python, "-m", "hlo_lens", "report", SAMPLE, cwd=folder)
    if "jit_train_step" not in out or out != again:
        sys.exit(f"unexpected report:\n{out}")
    page = run(python, "-m", "hlo_lens", "report", SAMPLE, "-f", "html", cwd=folder)
    if 'id="hlo-lens-data"' not in page:
        sys.exit("the wheel writes no page of HTML")
    topic = run(folder / "venv" / "bin" / "hlo-lens", "help", "memory", cwd=folder)
    if not topic.startswith("# memory: "):
        sys.exit(f"unexpected topic of the handbook:\n{topic}")
    zipped = (
        f"import sys; sys.path.insert(0, {str(wheel)!r}); import hlo_lens; "
        "assert '.whl' in hlo_lens.__file__, hlo_lens.__file__; "
        "print(hlo_lens.parse_hlo('ENTRY e { ROOT x = add(f32[2]{0} p, negate(p)) }').entry.name)"
    )
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "hlo-lens", cwd=folder)
    if run(python, "-c", zipped, cwd=folder).strip() != "e":
        sys.exit("the wheel does not work as a zip on sys.path")


def main() -> None:
    """Run all checks in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder)
        check_contents(wheel)
        check_use(wheel, folder)
    sys.stdout.write(f"wheel test passed: {wheel.name}\n")


if __name__ == "__main__":
    main()
