"""Cells cut and wrapped to a width."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hlo_lens.render.table import Role, cell_width
from hlo_lens.render.text_table import column_lines, least_width, wrapped


def test_names_keep_the_ends_that_tell_them_apart() -> None:
    names = ["loop_convert_fusion.12", "loop_convert_fusion.3{0}"]
    assert column_lines(names, Role.NAME, 14) == [["...t_fusion.12"], ["...fusion.3{0}"]]


def test_names_of_equal_ends_are_wrapped_whole() -> None:
    names = ["wrapped_add_fusion.clone.1", "wrapped_mul_fusion.clone.1"]
    assert ["".join(lines) for lines in column_lines(names, Role.NAME, 16)] == names


def test_names_of_arguments_are_wrapped_whole() -> None:
    name = "state['opt'][0].mu['layers']['kernel']"
    (lines,) = column_lines([name], Role.NAME, 16)
    assert lines == ["state['opt'][0].", "mu['layers']", "['kernel']"]


def test_places_lose_folders_first_and_files_of_one_name_stay_different() -> None:
    places = ["/home/me/a/model.py:3", "/home/me/b/train.py:41"]
    assert column_lines(places, Role.PLACE, 16) == [[".../a/model.py:3"], [".../train.py:41"]]
    assert column_lines(places, Role.PLACE, 12) == [["model.py:3"], ["train.py:41"]]
    same = ["/home/me/a/model.py:3", "/home/me/b/model.py:3"]
    assert ["".join(lines) for lines in column_lines(same, Role.PLACE, 12)] == same


def test_scopes_lose_those_in_front() -> None:
    scope = "jit(step)/transpose(jvp(attention))/dot_general"
    assert column_lines([scope], Role.SCOPE, 20) == [[".../dot_general"]]


def test_scopes_lose_arguments_of_the_operation_before_scopes() -> None:
    name = "jit(f)/embed/convert_element_type[new_dtype=bfloat16 weak_type=False]"
    assert column_lines([name], Role.SCOPE, 30) == [[".../embed/convert_element_type"]]
    assert column_lines([name], Role.SCOPE, 80) == [[name]]


def test_shapes_lose_layouts_first() -> None:
    shape = "f32[128,64]{1,0:T(8,128)S(1)}"
    assert column_lines([shape], Role.SHAPE, 12) == [["f32[128,64]"]]
    assert column_lines([shape], Role.SHAPE, 29) == [[shape]]


def test_reasons_are_wrapped() -> None:
    reason = "no output has its shape; --xla_dump_hlo_as_text shows more"
    (lines,) = column_lines([reason], Role.REASON, 24)
    assert lines == ["no output has its shape;", "--xla_dump_hlo_as_text", "shows more"]


def test_other_words_are_cut_after_two_lines() -> None:
    (lines,) = column_lines(["one two three four five"], Role.TEXT, 8)
    assert lines == ["one two", "th..."]


def test_bars_keep_their_proportions() -> None:
    assert column_lines(["####", "########", ""], Role.BAR, 4) == [["##"], ["####"], [""]]


def test_least_width_of_a_place_is_that_of_the_file() -> None:
    assert least_width(["/home/me/project/train.py:41"], Role.PLACE) == len("train.py:41")


@given(st.text(), st.integers(4, 40))
def test_wrapped_text_fits_and_is_whole(text: str, width: int) -> None:
    lines = [*wrapped(text, width)]
    assert all(cell_width(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


@given(
    st.lists(st.text("ab.[]{}'/", max_size=40), unique=True),
    st.integers(8, 30),
    st.sampled_from([Role.NAME, Role.PLACE]),
)
def test_different_names_and_places_never_look_alike(
    cells: list[str], width: int, role: Role
) -> None:
    lines = column_lines(cells, role, width)
    assert len({tuple(some) for some in lines}) == len(cells)
    assert all(len(line) <= width for some in lines for line in some)


def test_paths_among_names_are_cut_like_places() -> None:
    names = ["/home/me/lib/site-packages/model.py:7 ~", "[parameters]"]
    assert column_lines(names, Role.NAME, 20) == [[".../model.py:7 ~"], ["[parameters]"]]
