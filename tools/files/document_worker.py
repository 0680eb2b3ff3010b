"""Gives the text of a document, in a process of its own: what a file unpacks to is bounded by the process's limits.

The document is the standard input, its kind the argument. The answer is the text in UTF-8. What is wrong with the
document is said on the standard error, with exit code 1.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO
from xml.etree import ElementTree

MOST_TEXT_BYTES = 16 * 1024 * 1024
_MOST_PART_BYTES = 128 * 1024 * 1024
_MOST_MEMORY = 1024 * 1024 * 1024
_MOST_PROCESSOR_S = 30
_MOST_REPEATED = 100
_CUT = "[… the rest is left out: this is all that is read of a document …]"

_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")


def main() -> None:
    _limit()
    try:
        lines = _READERS[sys.argv[1]](sys.stdin.buffer)
        left = MOST_TEXT_BYTES
        for line in lines:
            data = f"{line}\n".encode("utf-8", "replace")
            left -= len(data)
            if left < 0:
                sys.stdout.buffer.write(f"{_CUT}\n".encode())
                break
            sys.stdout.buffer.write(data)
    except Exception as error:
        # A boundary: whatever a library raises, the document cannot be read.
        sys.exit(str(error)[:200] or "it takes too much memory")


def read_pdf(source: BinaryIO) -> Iterator[str]:
    from pypdf import PdfReader

    reader = PdfReader(source)
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it needs a password")
    has_text = False
    for number, page in enumerate(reader.pages, 1):
        text = page.extract_text().strip()
        has_text = has_text or bool(text)
        yield f"--- Page {number} ---"
        yield text
    if not has_text:
        raise ValueError("it has no text, only pictures")


def read_xlsx(source: BinaryIO) -> Iterator[str]:
    from openpyxl import load_workbook  # type: ignore[import-untyped]  # it has no types

    book = load_workbook(source, read_only=True, data_only=True)
    for sheet in book.worksheets:
        yield f"--- {sheet.title} ---"
        for row in sheet.iter_rows(values_only=True):
            yield "\t".join("" if cell is None else str(cell) for cell in row).rstrip("\t")


def read_docx(source: BinaryIO) -> Iterator[str]:
    body = _part(source, "word/document.xml").find(f"{_WORD}body")
    yield from _word_blocks(body if body is not None else ())


def read_pptx(source: BinaryIO) -> Iterator[str]:
    with zipfile.ZipFile(source) as file:
        numbers = sorted(int(found[1]) for name in file.namelist() if (found := _SLIDE.fullmatch(name)))
    for place, number in enumerate(numbers, 1):
        yield f"--- Slide {place} ---"
        for paragraph in _part(source, f"ppt/slides/slide{number}.xml").iter(f"{_DRAWING}p"):
            if text := "".join(each.text or "" for each in paragraph.iter(f"{_DRAWING}t")):
                yield text


def read_open_document(source: BinaryIO) -> Iterator[str]:
    """A text, a table or slides of the OpenDocument family."""
    yield from _open_blocks(_part(source, "content.xml"))


_READERS = {
    "PDF": read_pdf,
    "DOCX": read_docx,
    "XLSX": read_xlsx,
    "PPTX": read_pptx,
    "ODT": read_open_document,
    "ODS": read_open_document,
    "ODP": read_open_document,
}


def _part(source: BinaryIO, name: str) -> ElementTree.Element:
    with zipfile.ZipFile(source) as file:
        if file.getinfo(name).file_size > _MOST_PART_BYTES:
            raise ValueError("it unpacks to more than is read")
        return ElementTree.fromstring(file.read(name))


def _word_blocks(blocks: Iterable[ElementTree.Element]) -> Iterator[str]:
    """Paragraphs as lines, and rows of tables as lines with tabulators."""
    for block in blocks:
        if block.tag == f"{_WORD}p":
            yield _word_text(block)
        elif block.tag == f"{_WORD}tbl":
            for row in block.iter(f"{_WORD}tr"):
                yield "\t".join(" ".join(_word_blocks(cell)) for cell in row.findall(f"{_WORD}tc"))
        elif block.tag in (f"{_WORD}sdt", f"{_WORD}sdtContent", f"{_WORD}ins"):
            yield from _word_blocks(block)


def _word_text(paragraph: ElementTree.Element) -> str:
    """What is deleted has another tag, so this is the text as it is now."""
    signs = {f"{_WORD}tab": "\t", f"{_WORD}br": "\n", f"{_WORD}cr": "\n"}
    inside = [each.text or "" if each.tag == f"{_WORD}t" else signs.get(each.tag, "") for each in paragraph.iter()]
    return "".join(inside).strip("\n")


def _open_blocks(parent: ElementTree.Element) -> Iterator[str]:
    for block in parent:
        if block.tag in (f"{_TEXT}p", f"{_TEXT}h"):
            yield _open_text(block)
        elif block.tag == f"{_TABLE}table-row":
            yield _open_row(block)
        else:
            if block.tag in (f"{_TABLE}table", f"{_DRAW}page"):
                name = block.get(f"{_TABLE}name") or block.get(f"{_DRAW}name") or ""
                yield f"--- {name} ---"
            yield from _open_blocks(block)


def _open_row(row: ElementTree.Element) -> str:
    cells: list[str] = []
    for cell in row:
        if cell.tag in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            repeated = min(int(cell.get(f"{_TABLE}number-columns-repeated", "1")), _MOST_REPEATED)
            cells += [" ".join(_open_blocks(cell))] * repeated
    return "\t".join(cells).rstrip("\t")


def _open_text(element: ElementTree.Element) -> str:
    parts = [element.text or ""]
    for child in element:
        if child.tag == f"{_TEXT}s":
            parts.append(" " * min(int(child.get(f"{_TEXT}c", "1")), _MOST_REPEATED))
        elif child.tag == f"{_TEXT}tab":
            parts.append("\t")
        elif child.tag == f"{_TEXT}line-break":
            parts.append("\n")
        else:
            parts.append(_open_text(child))
        parts.append(child.tail or "")
    return "".join(parts)


def _limit() -> None:
    try:
        import resource
    except ImportError:
        # Without such limits, the deadline still holds.
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_PROCESSOR_S, _MOST_PROCESSOR_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()
