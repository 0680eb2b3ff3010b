"""Uploads: one file in a multipart body, into a temporary file first, and from there through the journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from starlette.types import Receive

from mcp_agent.open_terminal.files import Files
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from mcp_agent.transports.http import ClientLeft
from tools.filesystem import raw_files

_MOST_FIELD_BYTES = 64 * 1024


async def upload(files: Files, request: TerminalRequest) -> dict[str, Any]:
    """Put the file of the form into the folder that the URL names; one of that name is replaced.

    Raises TerminalRefusal.
    """
    # Imported at first use: most daemons are never sent a form.
    from starlette.datastructures import Headers, UploadFile
    from starlette.formparsers import MultiPartException, MultiPartParser

    folder = files.path(request, request.query.get("directory") or ".")
    if not files.can_write(request):
        # Refused before the body is read, and in the audit log as every refused call.
        await files.run(request, "fs_write", lambda ctx, _: raw_files.find_folder(ctx, folder), path=folder)
    headers = Headers(scope=request.scope)
    parser = MultiPartParser(
        headers, _body(request.receive), max_files=1, max_fields=8, max_part_size=_MOST_FIELD_BYTES
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError) as error:
        raise TerminalRefusal(400, f"the form cannot be read: {getattr(error, 'message', error)}") from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise TerminalRefusal(400, "the form has no file in it")
        content, name = file.file, (file.filename or "").replace("\\", "/").rpartition("/")[2]
        if not name or name in (".", ".."):
            raise TerminalRefusal(400, "the file in the form has no name")
        path = f"{folder.rstrip('/')}/{name}"
        # What an editor saves is plain text, whatever the file is; other files are taken as they are.
        is_text = (file.content_type or "").partition(";")[0].strip().lower() == "text/plain"
        written = await files.save(request, path, content, is_text=is_text)
    finally:
        await form.close()
    return {"path": written.path, "size": written.bytes_written, "undo_id": written.undo_id}


async def _body(receive: Receive) -> AsyncGenerator[bytes, None]:
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        yield message.get("body", b"")
        if not message.get("more_body"):
            return
