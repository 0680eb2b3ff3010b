"""A record is what a frozen dataclass is to those who read, compare and copy it."""

from __future__ import annotations

from dataclasses import asdict, field, fields, replace

import pytest

from tools.kit.records import mutable, record


@record
class Place:
    name: str
    line: int = 1
    tags: list[str] = field(default_factory=list)


@record
class Marked(Place):
    mark: str = ""


def test_a_record_is_made_by_position_name_and_default() -> None:
    place = Place("a.py", tags=["x"])
    assert (place.name, place.line, place.tags) == ("a.py", 1, ["x"])
    assert Place("a").tags is not Place("a").tags
    with pytest.raises(TypeError, match="name"):
        Place()  # type: ignore[call-arg]  # that is what is refused


def test_records_are_equal_by_class_and_fields() -> None:
    assert Place("a", 2) == Place("a", 2)
    assert Place("a", 2) != Place("a", 3)
    assert Place("a") != Marked("a")


def test_a_record_of_hashable_fields_is_a_key() -> None:
    assert hash(_Key("a", 1)) == hash(_Key("a", 1))
    assert len({_Key("a", 1), _Key("a", 1), _Key("a", 2)}) == 2


def test_a_record_shows_its_fields() -> None:
    assert repr(Marked("a", 2, mark="m")) == "Marked(name='a', line=2, tags=[], mark='m')"


def test_a_record_has_no_room_for_what_it_does_not_name() -> None:
    with pytest.raises(AttributeError):
        Place("a").nam = "b"  # type: ignore[attr-defined]  # that is what is refused


def test_the_tools_for_dataclasses_work_on_records() -> None:
    marked = Marked("a", 2, mark="m")
    assert replace(marked, line=3) == Marked("a", 3, mark="m")
    assert asdict(marked) == {"name": "a", "line": 2, "tags": [], "mark": "m"}
    assert [each.name for each in fields(marked)] == ["name", "line", "tags", "mark"]


def test_what_a_record_does_after_it_is_made_is_done() -> None:
    assert _Doubled(2).count == 4


def test_a_record_can_be_matched_by_position() -> None:
    match Marked("a", 2):
        case Marked(name, line):
            assert (name, line) == ("a", 2)


def test_a_record_keeps_its_own_way_of_comparing() -> None:
    assert _Loose("a", 1) == _Loose("a", 2)


def test_a_record_keeps_its_own_way_of_being_made() -> None:
    assert _Upper("a").name == "A"


def test_a_class_below_a_record_is_made_as_the_record_is() -> None:
    class Below(_Key):
        pass

    assert (Below("a", 1).name, Below("b", line=2).line, type(Below("c", 3))) == ("a", 2, Below)


@record
class _Upper:
    name: str

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "name", name.upper())


@record
class _Key:
    name: str
    line: int


@record
class _Loose:
    name: str
    line: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Loose) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


@mutable
class _Doubled:
    count: int

    def __post_init__(self) -> None:
        self.count *= 2
