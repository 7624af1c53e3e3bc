"""The mesh on the chips of a TPU whose topology the dump has."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.commands import output_of
from tests.corpus import SAMPLES
from tests.questions.report.html.pages import data_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.questions.report.html.conftest import Opened

    Opener = Callable[..., Opened]

ORDER = (0, 1, 3, 2, 6, 7, 5, 4)
"""Device of each partition: a path along neighbouring chips of 2x4."""

ARGUMENTS = """tpu_topology_args {
  version: TPU_VERSION_VIPERFISH variant: "lite"
  chips_per_host_bounds { x: 2 y: 2 z: 1 }
  host_bounds { x: 1 y: 2 z: 1 }
  wrap { }
}
"""


def _dump(folder: Path, order: tuple[int, ...], arguments: str = ARGUMENTS) -> str:
    """Return a copy of a dump for eight TPUs with the files that libtpu writes next to it."""
    for file in (SAMPLES / "tpu" / "tp_mlp").glob("module_0000*.txt"):
        shutil.copy(file, folder)
    stem = "module_0000.jit_train_step.cl_1003875606"
    (folder / f"{stem}.target_arguments.txt").write_text(arguments, "utf-8")
    devices = "".join(f"  computation_devices {{ replica_device_ids: {one} }}\n" for one in order)
    config = f"static_device_assignment {{\n  replica_count: 1\n{devices}}}\n"
    (folder / f"{stem}.hlo_module_config.txt").write_text(config, "utf-8")
    return str(folder)


def _page(path: str) -> str:
    return output_of(["report", path, "-f", "html"])


def _mesh(page: str) -> dict[str, Any]:
    views = data_of(page)["hlo-lens-views"]["modules"][0]["views"]
    found: dict[str, Any] = views["collectives"]["meshes"][0]
    return found


def test_places_are_those_of_the_assignment(tmp_path: Path) -> None:
    topology = _mesh(_page(_dump(tmp_path, ORDER)))["topology"]
    assert (topology["name"], topology["sizes"]) == ("v5e:2x4", [2, 4, 1])
    assert topology["places"] == [[0, one % 2, one // 2, 0, 0] for one in ORDER]


@pytest.mark.parametrize(("order", "near"), [(ORDER, 8), (tuple(range(8)), 4)])
def test_neighbours_on_neighbouring_chips_are_counted(
    open_page: Opener, tmp_path: Path, order: tuple[int, ...], near: int
) -> None:
    opened = open_page(_page(_dump(tmp_path, order)))
    page = opened.open()
    opened.draw_all()
    figure = page.locator("#view-collectives figure.mesh")
    text = figure.inner_text()
    assert f"{near} of 8 pairs of neighbours in the mesh are on neighbouring chips" in text
    assert figure.locator("path.far").count() == 8 - near
    assert figure.locator("rect.device").count() == 8
    figure.locator("details.numbers > summary").click()
    rows = figure.locator("details.numbers tbody tr")
    rows.first.wait_for(state="attached")
    cells = [[int(cell.inner_text()) for cell in row.locator("td").all()] for row in rows.all()]
    assert cells == [[k, 0, one % 2, one // 2, 0, 0] for k, one in enumerate(order)]
    page.get_by_role("button", name="by mesh axes").click()
    assert "data=2 x model=4" in page.locator("#view-collectives figure.mesh").inner_text()
    opened.assert_quiet()


def test_links_around_the_edges_are_next_to_each_other(open_page: Opener, tmp_path: Path) -> None:
    order = (0, 2, 4, 6, 1, 3, 5, 7)  # the model axis along y, which has four chips
    arguments = ARGUMENTS.replace("wrap { }", "wrap { y: true }")
    opened = open_page(_page(_dump(tmp_path, order, arguments)))
    page = opened.open()
    opened.draw_all()
    figure = page.locator("#view-collectives figure.mesh")
    assert "links wrap around along y" in figure.inner_text()
    assert "8 of 8 pairs of neighbours in the mesh are on neighbouring chips" in figure.inner_text()
    assert (figure.locator("path.around").count(), figure.locator("path.far").count()) == (2, 0)
    opened.assert_quiet()


def test_without_places_the_order_is_that_of_the_mesh(open_page: Opener) -> None:
    page_text = _page("sample_dumps/gpu/tp_mlp")
    assert _mesh(page_text)["topology"] is None
    opened = open_page(page_text)
    page = opened.open()
    opened.draw_all()
    assert "in the order of the mesh" in page.locator("#view-collectives .mesh-place").inner_text()
