"""`mcp-agent open` opens the Tools page of the running daemon in a browser, or prints how to."""

from __future__ import annotations

import argparse
import getpass
import os
import socket
import sys
import urllib.parse

from mcp_agent.cli.commands import daemon_client
from mcp_agent.config import load

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


def open_page(options: argparse.Namespace) -> int:
    config = load(vars(options))
    daemon = daemon_client.find(config)
    if daemon is None:
        raise daemon_client.NoDaemon(config, ", so there is no page; start one with: mcp-agent serve")
    ticket = daemon.ask("POST", "/api/ticket", {})
    parts = urllib.parse.urlsplit(daemon.url)
    host = _ANY_ADDRESS.get(parts.hostname or "", parts.netloc.rpartition(":")[0])
    link = f"{parts.scheme}://{host}:{parts.port}{ticket['path']}"
    if not options.print and _has_display() and _open_in_browser(link):
        print(
            f"The Tools page opens in your browser. If it does not, use this link, once, within a minute:\n\n  {link}\n"
        )
        return 0
    print(f"Open this link in a browser. It works once, within a minute:\n\n  {link}\n")
    if not _has_display():
        print(
            "If your browser is on another machine, run this there first, and leave it running:\n\n"
            f"  ssh -L {parts.port}:{host}:{parts.port} {getpass.getuser()}@{socket.gethostname()}\n"
        )
    return 0


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_in_browser(link: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False
