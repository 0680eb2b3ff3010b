"""The pruned text: markers, numbers, annotations."""

import pytest

from tools.pruning import engine
from tools.pruning.engine import Annotation, DroppedBlock, Rendered, Selection


def test_a_block_is_rendered_as_a_marker_and_annotated() -> None:
    selection = Selection(dropped=(DroppedBlock(2, 4, "accessory", 2, 8),), total_lines=6, source_type="code")
    marker = "⟦PRUNÉ: prune_id=prn_01J lignes 2-4 (3) raison=accessoire⟧"
    annotation = Annotation(2, 4, 3, "accessoire", marker)
    assert engine.render("a\nb\nc\nd\ne\n", selection, "prn_01J") == Rendered(f"a\n{marker}\ne\n", (annotation,))


def test_numbered_lines_have_their_original_numbers_and_markers_have_none() -> None:
    selection = Selection(dropped=(DroppedBlock(2, 4, "accessory", 2, 8),), total_lines=6, source_type="code")
    rendered = engine.render("a\nb\nc\nd\ne\n", selection, "prn_1", annotate_lines=True)
    assert rendered.pruned_text == "1│ a\n⟦PRUNÉ: prune_id=prn_1 lignes 2-4 (3) raison=accessoire⟧\n5│ e\n"


def test_without_markers_the_annotations_still_carry_them() -> None:
    selection = Selection(dropped=(DroppedBlock(1, 2, "accessory", 0, 4),), total_lines=3, source_type="code")
    rendered = engine.render("a\nb\nc", selection, "prn_1", include_markers=False)
    assert rendered.pruned_text == "c"
    assert rendered.annotations[0].marker == "⟦PRUNÉ: prune_id=prn_1 lignes 1-2 (2) raison=accessoire⟧"


@pytest.mark.parametrize(("language", "marker"), [("en", "PRUNED: lines 2-4 · 3 alike"), ("fr", "PRUNÉ: lignes 2-4")])
def test_a_brief_marker_says_the_lines_alone(language: engine.Language, marker: str) -> None:
    block = DroppedBlock(2, 4, "routine", 2, 8, "3 alike")
    selection = Selection(dropped=(block,), total_lines=6, source_type="logs")
    text = engine.render_text("a\nb\nc\nd\ne\n", selection, "prn_1", language=language, is_brief=True)
    assert text == f"a\n⟦{marker}⟧\ne\n"


def test_a_selection_of_another_text_is_refused() -> None:
    selection = Selection(dropped=(DroppedBlock(2, 3, "accessory", 2, 5),), total_lines=3, source_type="code")
    with pytest.raises(ValueError, match="of another text"):
        engine.render("a\nb", selection, "prn_1")
