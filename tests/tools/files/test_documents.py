"""Documents as text: what is read of each kind, and that a bad one harms nobody."""

from __future__ import annotations

import datetime
import io
import zipfile
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.open_terminal import get, terminal
from tools.context import Cancelled, ToolContext
from tools.files.documents import DocumentReader
from tools.files.paths import OpenPaths
from tools.filesystem.fs_read import FileImage, FileText, fs_read
from tools.filesystem.fs_read_range import LineRange, fs_read_range
from tools.kit.errors import IsBinary
from tools.pruning.read import read

_WORD = (
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
    "<w:p><w:r><w:t>One &amp; two</w:t><w:tab/><w:t>three</w:t></w:r></w:p>"
    "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del><w:ins><w:r><w:t>come</w:t></w:r></w:ins></w:p>"
    "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr>"
    "</w:tbl></w:body></w:document>"
)
_SLIDE = (
    '<p:sld xmlns:p="p" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main">'
    "<a:p><a:r><a:t>Slide </a:t></a:r><a:r><a:t>{}</a:t></a:r></a:p></p:sld>"
)
_OPEN = (
    '<o:document-content xmlns:o="o" xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"><o:body>'
    '<text:h>Head</text:h><text:p>a<text:s text:c="3"/>b<text:span>c</text:span><text:tab/>d</text:p>'
    '<table:table table:name="T"><table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>'
    '<table:table-cell table:number-columns-repeated="2"><text:p>y</text:p></table:table-cell></table:table-row>'
    "</table:table></o:body></o:document-content>"
)


def _zip(path: Path, **parts: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name.replace("__", "/") + ".xml", text)
    return path


def _pdf(path: Path, *pages: str) -> Path:
    """A PDF by hand, so that it is no library that reads what it has written itself."""
    bodies = [f"BT /F1 12 Tf 72 720 Td ({page}) Tj ET" for page in pages]
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, body in enumerate(bodies):
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> "
            f"/Contents {5 + 2 * number} 0 R >>"
        )
        objects.append(f"<< /Length {len(body)} >>\nstream\n{body}\nendstream")
    data, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    data += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n".encode()
    path.write_bytes(data + f"startxref\n{data.index(b'xref')}\n%%EOF\n".encode())
    return path


def _xlsx(path: Path) -> Path:
    from openpyxl import Workbook  # type: ignore[import-untyped]  # it has no types

    book = Workbook()
    book.active.title = "Sums"
    book.active.append(["day", "sum", None])
    book.active.append([datetime.date(2026, 11, 19), 1.5, None])
    book.save(path)
    return path


def _context(folder: Path, documents: DocumentReader | None = None) -> ToolContext:
    return ToolContext("a-call", OpenPaths(folder), documents=documents or DocumentReader())


def _text(path: Path, context: ToolContext | None = None, **arguments: int) -> FileText:
    found: FileText | FileImage | LineRange = fs_read.function(
        context or _context(path.parent), path=str(path), **{"max_bytes": 131_072, **arguments}
    )
    assert isinstance(found, FileText)
    return found


def test_the_text_of_each_kind_is_read(tmp_path: Path) -> None:
    slides = {"ppt__slides__slide10": _SLIDE.format("b"), "ppt__slides__slide2": _SLIDE.format("a")}
    found = {
        "docx": _zip(tmp_path / "a.docx", word__document=_WORD),
        "pptx": _zip(tmp_path / "a.PPTX", **slides),
        "odt": _zip(tmp_path / "a.odt", content=_OPEN),
        "pdf": _pdf(tmp_path / "a.pdf", "first page", "second page"),
        "xlsx": _xlsx(tmp_path / "a.xlsx"),
    }
    texts = {kind: _text(path) for kind, path in found.items()}
    assert {kind: text.content for kind, text in texts.items()} == {
        "docx": "One & two\tthree\ncome\na\tb\n",
        "pptx": "--- Slide 1 ---\nSlide a\n--- Slide 2 ---\nSlide b\n",
        "odt": "Head\na   bc\td\n--- T ---\nx\ty\ty\n",
        "pdf": "--- Page 1 ---\nfirst page\n--- Page 2 ---\nsecond page\n",
        "xlsx": "--- Sums ---\nday\tsum\n2026-11-19 00:00:00\t1.5\n",
    }
    assert {text.encoding for text in texts.values()} == {
        "DOCX as text",
        "PPTX as text",
        "ODT as text",
        "PDF as text",
        "XLSX as text",
    }
    assert {text.rev for text in texts.values()} == {None}


def test_a_long_document_is_read_on_by_lines_and_with_a_question(tmp_path: Path) -> None:
    path = _pdf(tmp_path / "long.pdf", *(f"page {number}" for number in range(1, 41)))
    context = _context(tmp_path)
    begun = _text(path, context, max_bytes=100)
    assert (begun.truncated, begun.next_line) == (True, begun.content.count("\n") + 1)
    assert "go on with fs_read_range from line" in begun.render()
    rest = fs_read_range.function(context, path=str(path), start_line=79, end_line=-1)
    assert (rest.content, rest.total_lines) == ("--- Page 40 ---\npage 40", 80)
    assert read.function(context, file_path=str(path)).content.endswith("--- Page 40 ---\npage 40\n")


def test_what_is_no_document_stays_binary_and_a_broken_one_says_why(tmp_path: Path) -> None:
    plain = _zip(tmp_path / "plain.zip", content=_OPEN)
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4\n\0\0nothing")
    empty = _zip(tmp_path / "empty.docx", other="<a/>")
    renamed = tmp_path / "no.docx"
    renamed.write_bytes(b"\x7fELF\0\0\0")
    for path, reason in (
        (plain, "plain.zip"),
        (renamed, "no.docx"),
        (broken, "cannot be read"),
        (empty, "cannot be read"),
    ):
        with pytest.raises(IsBinary, match=reason):
            _text(path)


def test_a_bomb_is_ended_by_its_limits_and_the_next_is_read(tmp_path: Path) -> None:
    declared = "<!DOCTYPE a [" + "".join(
        f'<!ENTITY e{number} "{f"&e{number - 1};" * 10 if number else "x" * 100}">' for number in range(12)
    )
    path = _zip(tmp_path / "bomb.docx", word__document=f"{declared}]><a>&e11;</a>")
    big = io.BytesIO()
    with zipfile.ZipFile(big, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("content.xml", b" " * (200 * 1024 * 1024))
    (tmp_path / "big.odt").write_bytes(big.getvalue())
    context = _context(tmp_path)
    for each in (path, tmp_path / "big.odt"):
        with pytest.raises(IsBinary, match="cannot be read"):
            _text(each, context)
    assert _text(_zip(tmp_path / "a.odt", content=_OPEN), context).content.startswith("Head")


def test_a_document_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    path = _pdf(tmp_path / "slow.pdf", "page")
    with pytest.raises(IsBinary, match="too much memory or time"):
        _text(path, _context(tmp_path, DocumentReader(deadline_s=0.001)))
    cancelled = _context(tmp_path)
    cancelled.is_cancelled = True
    with pytest.raises(Cancelled):
        _text(path, cancelled)


async def test_a_document_that_is_shown_as_text_is_not_saved_as_text(shared_daemon: Daemon, tmp_path: Path) -> None:
    path = _zip(tmp_path / "letter.odt", content=_OPEN)
    before = path.read_bytes()
    async with terminal(shared_daemon, chat="document") as page:
        assert (await get(page, "/files/read", path=str(path)))["content"].startswith("Head\n")
        saved = await page.post(
            "/files/upload", params={"directory": str(tmp_path)}, files={"file": (path.name, b"Head", "text/plain")}
        )
    assert (saved.status_code, saved.json()["detail"]) == (413, f"{path} was opened as text, so it was not saved")
    assert path.read_bytes() == before
