"""``python -m hlo_lens`` is ``hlo-lens``."""

from __future__ import annotations

from hlo_lens.cli import main

if __name__ == "__main__":
    main(prog_name="hlo-lens")
