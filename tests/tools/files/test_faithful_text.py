from __future__ import annotations

import codecs
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.bench import Bench

GERMAN = "Straße\nschöne Grüße aus Köln, überall Öl\nzum Schluß\n"
QUOTES = "plain\n“quoted” – costs 5 €\nend\n"
RUSSIAN = "".join(f"Это строка номер {n} обычного русского текста\n" for n in range(9))
JAPANESE = "".join(f"これは日本語のテキストの{n}行目です。文字コードを調べます。\n" for n in range(9))


@pytest.mark.parametrize(
    ("text", "codec", "bom", "told"),
    [
        (GERMAN, "utf-8", b"", None),
        (GERMAN, "utf-8", codecs.BOM_UTF8, "utf-8-sig"),
        (GERMAN, "utf-16-le", codecs.BOM_UTF16_LE, "utf-16-le"),
        (GERMAN, "utf-16-be", codecs.BOM_UTF16_BE, "utf-16-be"),
        (GERMAN, "utf-16-le", b"", "utf-16-le"),
        (GERMAN, "latin-1", b"", "latin-1"),
        (QUOTES, "cp1252", b"", "cp1252"),
        (RUSSIAN, "cp1251", b"", "cp1251"),
        (JAPANESE, "cp932", b"", "cp932"),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_patch_changes_its_line_and_no_other_byte(
    bench: Bench, text: str, codec: str, bom: bytes, told: str | None, ending: str
) -> None:
    lines = text.replace("\n", ending)
    path = bench.file("text", bom + lines.encode(codec))
    read = bench.call("fs_read", path="text")
    assert (read["content"], read.get("encoding")) == (lines, told)
    second = text.split("\n")[1]
    patched = bench.patch("text", type="replace_first", pattern=second, replacement="one\ntwo")
    assert patched.get("encoding") == told
    assert path.read_bytes() == bom + lines.replace(second, f"one{ending}two", 1).encode(codec)


def test_new_lines_take_the_ending_of_the_lines_around_them(bench: Bench) -> None:
    path = bench.file("mixed", b"unix\nalso unix\ndos\r\nalso dos\r\nlast")
    operations = [
        {"type": "insert_after", "match": "also unix", "insert": "new"},
        {"type": "insert_before", "match": "also dos", "insert": "one\r\ntwo"},
        {"type": "insert_after", "match": "last", "insert": "end"},
    ]
    bench.call("fs_patch", path="mixed", operations=operations)
    assert path.read_bytes() == b"unix\nalso unix\nnew\ndos\r\none\r\ntwo\r\nalso dos\r\nlast\r\nend"


def test_a_pattern_with_plain_line_feeds_matches_lines_that_end_in_crlf(bench: Bench) -> None:
    path = bench.file("dos", b"a\r\nb\r\nc\r\n")
    bench.patch("dos", type="replace_first", pattern="a\nb\n", replacement="x\n")
    assert path.read_bytes() == b"x\r\nc\r\n"


def test_a_pattern_that_names_carriage_returns_is_taken_by_the_letter(bench: Bench) -> None:
    path = bench.file("dos", b"a\r\nb\r\n")
    bench.patch("dos", type="replace_all", pattern="\r\n", replacement="\n")
    assert path.read_bytes() == b"a\nb\n"


def test_bytes_that_are_no_utf_8_survive_in_a_large_file_that_is(bench: Bench) -> None:
    head = b"caf\xc3\xa9 first\n" + b"plain line\n" * 8_000
    path = bench.file("mostly", head + b"stray \xff byte\nlast line\n")
    bench.patch("mostly", type="replace_first", pattern="last line", replacement="the end")
    assert path.read_bytes() == head + b"stray \xff byte\nthe end\n"


@given(
    before=st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), max_size=40),
    after=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
    codec=st.sampled_from(["utf-8", "utf-16-le"]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_around_a_replaced_word_stays(tmp_path: Path, before: str, after: str, codec: str) -> None:
    bench = Bench(tmp_path)
    bom = codecs.BOM_UTF16_LE if codec == "utf-16-le" else b""
    path = bench.file("any", bom + f"{before}NEEDLE{after}".encode(codec))
    bench.patch("any", type="replace_first", pattern="NEEDLE", replacement="word")
    assert path.read_bytes() == bom + f"{before}NEEDLE{after}".replace("NEEDLE", "word", 1).encode(codec)


def test_a_text_that_the_encoding_cannot_hold_is_refused_by_a_patch(bench: Bench) -> None:
    path = bench.file("latin", GERMAN.encode("latin-1"))
    error = bench.error("fs_patch", path="latin", operations=[{"type": "insert_after", "match": "Köln", "insert": "☃"}])
    assert error.code == "NOT_ENCODABLE"
    assert path.read_bytes() == GERMAN.encode("latin-1")
    assert bench.litter() == []


def test_an_overwritten_file_keeps_its_encoding_where_that_can_hold_the_text(bench: Bench) -> None:
    path = bench.file("latin", GERMAN.encode("latin-1"))
    assert bench.call("fs_write", path="latin", content="Öl\n")["encoding"] == "latin-1"
    assert path.read_bytes() == "Öl\n".encode("latin-1")
    assert "encoding" not in bench.call("fs_write", path="latin", content="☃\n")
    assert path.read_bytes() == "☃\n".encode()
    marked = bench.file("marked", codecs.BOM_UTF8 + b"x")
    bench.call("fs_write", path="marked", content="\ufeffy")
    assert marked.read_bytes() == codecs.BOM_UTF8 + b"y"


def test_text_is_appended_in_the_encoding_of_the_file(bench: Bench) -> None:
    path = bench.file("wide", codecs.BOM_UTF16_LE + "one\n".encode("utf-16-le"))
    assert bench.call("fs_write", path="wide", content="zwö\n", mode="append")["bytes_written"] == 8
    assert path.read_bytes() == codecs.BOM_UTF16_LE + "one\nzwö\n".encode("utf-16-le")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(100), "a PNG image"),
        (b"#!/bin/sh\nexec tail\n" + b"text\n" * 50_000 + bytes(5_000), "binary data"),
        (b"\x7fELF" + bytes(60), "an ELF program"),
        (b"\xfe\x01\x02\x03 no text", "binary data"),
    ],
)
@pytest.mark.parametrize("tool", ["fs_read", "fs_read_range", "fs_patch"])
def test_a_binary_file_is_refused_with_its_size_and_kind(bench: Bench, data: bytes, kind: str, tool: str) -> None:
    bench.file("blob", data)
    arguments: dict[str, dict[str, Any]] = {
        "fs_read": {},
        "fs_read_range": {"start_line": 1, "end_line": 2},
        "fs_patch": {"operations": [{"type": "replace_first", "pattern": "text", "replacement": "x"}]},
    }
    error = bench.error(tool, path="blob", **arguments[tool])
    assert error.code == "IS_BINARY"
    assert str(len(data)) in error.message
    assert error.fields["size"] == len(data)
    assert error.fields["kind"].startswith(kind)


def test_a_character_is_never_split_by_max_bytes(bench: Bench) -> None:
    bench.file("snow", "☃☃☃")
    for limit, shown in ((1, ""), (3, "☃"), (5, "☃"), (8, "☃☃"), (9, "☃☃☃")):
        assert bench.call("fs_read", path="snow", max_bytes=limit)["content"] == shown


def test_mode_links_and_hard_links_survive_every_kind_of_write(bench: Bench) -> None:
    path = bench.file("script", "#!/bin/sh\necho one\n")
    path.chmod(0o750)
    os.link(path, bench.folder / "twin")
    (bench.folder / "link").symlink_to("script")
    bench.patch("link", type="replace_first", pattern="one", replacement="two")
    bench.call("fs_write", path="link", content="#!/bin/sh\necho three\n")
    assert (bench.folder / "twin").read_text() == "#!/bin/sh\necho three\n"
    assert path.samefile(bench.folder / "twin")
    assert (bench.folder / "link").is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    alone = bench.file("alone", "x")
    alone.chmod(0o604)
    bench.call("fs_write", path="alone", content="y")
    assert stat.S_IMODE(alone.stat().st_mode) == 0o604


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_keeps_its_owner(bench: Bench) -> None:
    path = bench.file("theirs", "x")
    os.chown(path, 1234, 2345)
    bench.call("fs_write", path="theirs", content="y")
    status = path.stat()
    assert (status.st_uid, status.st_gid, path.read_text()) == (1234, 2345, "y")


def test_a_long_line_before_old_letters_costs_no_time(bench: Bench) -> None:
    path = bench.file("text", b"a" * 30_000 + b"\n" + "Grüße ".encode("latin-1") * 100)
    began = time.process_time()
    assert bench.call("fs_read", path=str(path))["encoding"] == "latin-1"
    assert time.process_time() - began < 2
