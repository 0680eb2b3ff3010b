"""Who asks for access: programs that registered themselves, and those that a document on the web describes.

Nothing is stored for a registration. The id of such a client is what it said, signed, so nobody can fill the disk. It
has claimed its own name; of a client with a document, the host of the document vouches for it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_REGISTERED = "mcp-agent."
_MOST_REDIRECTS = 10
_MOST_REDIRECT_CHARS = 500
_MOST_NAME_CHARS = 60
# A browser runs or opens these itself, so a code would not go to a program.
_CLOSED_SCHEMES = (
    "",
    "javascript",
    "data",
    "file",
    "blob",
    "vbscript",
    "about",
    "filesystem",
    "view-source",
    "ws",
    "wss",
)
_LOCAL = ("http://127.0.0.1/callback", "http://localhost/callback")
_CLAUDE = ("https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback")
# The documents of programs that many have, as they publish them. They are not fetched: some answer a program in a data
# centre with a challenge for browsers, and a client that has a document does not register instead. Codex and opencode
# append to the path of their callback, so theirs is listed as they send it.
KNOWN: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "https://claude.ai/oauth/mcp-oauth-client-metadata": ("Claude", _CLAUDE),
    "https://claude.ai/oauth/claude-code-client-metadata": ("Claude Code", _LOCAL),
    "https://chatgpt.com/oauth/client.json": ("ChatGPT", ("https://chatgpt.com/connector_platform_oauth_redirect",)),
    "https://chatgpt.com/oauth/codex/client.json": ("Codex", _LOCAL),
    "https://opencode.ai/oauth/opencode/client.json": ("opencode", (*_LOCAL, "http://127.0.0.1/mcp/oauth/callback")),
    "https://vscode.dev/oauth/client-metadata.json": (
        "Visual Studio Code",
        ("http://127.0.0.1:33418/", "https://vscode.dev/redirect"),
    ),
    "https://zed.dev/oauth/client-metadata.json": ("Zed", ("http://127.0.0.1/callback",)),
}
# A connector of ChatGPT that is older than its one address for all has a document and a callback of its own.
_CHATGPT_CONNECTOR = re.compile(r"https://chatgpt\.com/oauth/([\w-]{1,100})/client\.json")

# On the web: people give our address to these, and an account of theirs may want to know where they are called back.
_ON_THE_WEB = ("https://claude.ai/oauth/mcp-oauth-client-metadata", "https://chatgpt.com/oauth/client.json")


def addresses_to_paste(public_url: str) -> dict[str, Any]:
    """What is pasted into claude.ai and ChatGPT, and where they are called back."""
    return {"resource": f"{public_url}/mcp", "callbacks": {KNOWN[each][0]: KNOWN[each][1] for each in _ON_THE_WEB}}


class OAuthError(Exception):
    """A request is refused, with a code of OAuth and a sentence for whoever reads it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class UnreadableDocument(OAuthError):
    """The document of a client cannot be had: we are offline, or refused."""


class OAuthClient(Struct, frozen=True):
    """A program that asks. `voucher` is the host that vouches for its name; None: only the program itself claims it."""

    id: str
    name: str
    redirects: tuple[str, ...]
    voucher: str | None = None

    def redirect(self, asked: str | None) -> str:
        """Where an answer goes, if the client may have it there. Raises OAuthError."""
        if asked is None and len(self.redirects) == 1:
            return self.redirects[0]
        if asked is not None and any(asked == each or _differ_in_port(asked, each) for each in self.redirects):
            return asked
        raise OAuthError("invalid_request", f"the client asks for an answer at {asked}, which is none of its addresses")


class OAuthClients:
    """Finds a client by its id. `read_document` fetches one; it is called only for a browser that has logged in."""

    def __init__(self, key: Callable[[], bytes], read_document: Callable[[str], Awaitable[Mapping[str, Any]]]) -> None:
        self._key = key
        self._read_document = read_document

    def register(self, asked: Any) -> dict[str, Any]:
        """The answer to a registration (RFC 7591). Raises OAuthError."""
        if not isinstance(asked, dict):
            raise OAuthError("invalid_client_metadata", "the body must be a JSON object")
        redirects = _checked_redirects(asked, "invalid_redirect_uri", 400)
        name = _name(asked.get("client_name"))
        body = _encode(orjson.dumps([name, redirects]))
        kept = {key: asked[key] for key in ("client_name", "client_uri", "application_type") if key in asked}
        return {
            **kept,
            "client_id": f"{_REGISTERED}{body}.{self._sign(body)}",
            "redirect_uris": redirects,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": "mcp",
        }

    def check_id(self, client_id: str) -> None:
        """Raises OAuthError for an id that is none of ours. Nothing is fetched: that was done before the consent."""
        if not client_id.startswith("https://"):
            self._registered(client_id)

    async def find(self, client_id: str, redirect: str | None) -> OAuthClient:
        """The client of that id, which wants its answer at `redirect`. Raises OAuthError."""
        if not client_id.startswith("https://"):
            return self._registered(client_id)
        if (known := _known_client(client_id)) is not None:
            return known
        try:
            return _described_client(await self._read_document(client_id), client_id)
        except UnreadableDocument:
            # No weaker than a registration: nobody vouches for it, and the answer stays on the machine of its user.
            if redirect is not None and _is_on_loopback(redirect):
                return OAuthClient(client_id, urlsplit(client_id).hostname or "", (redirect,))
            raise

    def _registered(self, client_id: str) -> OAuthClient:
        body, _, signature = client_id.removeprefix(_REGISTERED).partition(".")
        is_ours = client_id.startswith(_REGISTERED) and hmac.compare_digest(
            signature.encode(), self._sign(body).encode()
        )
        if not is_ours:
            # With this status and code, clients forget the id and register anew.
            raise OAuthError("invalid_client", "this client is not known here", 401)
        name, redirects = orjson.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return OAuthClient(client_id, name, tuple(redirects))

    def _sign(self, body: str) -> str:
        return _encode(hmac.digest(self._key(), body.encode(), hashlib.sha256)[:18])


def is_usable_redirect(uri: Any) -> bool:
    """Whether a code may be sent there: by https, to a program on its user's machine, or by a scheme of its own."""
    if not isinstance(uri, str) or len(uri) > _MOST_REDIRECT_CHARS or not uri.isascii() or not uri.isprintable():
        return False
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        return False
    if "#" in uri or " " in uri or "\\" in uri or parts.username is not None or parts.scheme in _CLOSED_SCHEMES:
        return False
    if parts.scheme == "http":
        return parts.hostname in LOOPBACK
    return bool(parts.hostname) if parts.scheme == "https" else bool(parts.netloc or parts.path)


def _known_client(client_id: str) -> OAuthClient | None:
    if client_id in KNOWN:
        name, redirects = KNOWN[client_id]
    elif connector := _CHATGPT_CONNECTOR.fullmatch(client_id):
        name, redirects = "ChatGPT", (f"https://chatgpt.com/connector/oauth/{connector[1]}",)
    else:
        return None
    return OAuthClient(client_id, name, redirects, urlsplit(client_id).hostname)


def _described_client(document: Mapping[str, Any], url: str) -> OAuthClient:
    if document.get("client_id") != url:
        raise OAuthError("invalid_client", f"the document at {url} is about another client", 401)
    redirects = _checked_redirects(document, "invalid_client", 401)
    # Some prefer another method and take this one too.
    methods = document.get("token_endpoint_auth_methods_supported") or [
        document.get("token_endpoint_auth_method", "none")
    ]
    if not isinstance(methods, list) or "none" not in methods:
        raise OAuthError("invalid_client", f"the client at {url} cannot do without a secret, and we have none", 401)
    host = urlsplit(url).hostname
    return OAuthClient(url, _name(document.get("client_name")) or host or "", tuple(redirects), host)


def _checked_redirects(document: Mapping[str, Any], code: str, status: int) -> list[str]:
    redirects = document.get("redirect_uris")
    if not isinstance(redirects, list) or not 0 < len(redirects) <= _MOST_REDIRECTS:
        raise OAuthError(code, f"redirect_uris must be a list of 1 to {_MOST_REDIRECTS} addresses", status)
    for each in redirects:
        if not is_usable_redirect(each):
            raise OAuthError(code, f"{str(each)[:100]!r} cannot be used: https, or http on this machine", status)
    return redirects


def _name(value: Any) -> str:
    """A name as it can be shown: on one line, and with nothing that changes the direction of text."""
    text = value if isinstance(value, str) else ""
    return "".join(each for each in text if each.isprintable())[:_MOST_NAME_CHARS].strip()


def _is_on_loopback(uri: str) -> bool:
    return is_usable_redirect(uri) and uri.startswith("http:")


def _differ_in_port(asked: str, known: str) -> bool:
    """A program on its user's machine takes any free port (RFC 8252). In practice it does so with `localhost`, too."""
    if not (is_usable_redirect(asked) and _is_on_loopback(known)):
        return False
    one, other = urlsplit(asked), urlsplit(known)
    return (one.scheme, one.hostname, one.path, one.query) == (other.scheme, other.hostname, other.path, other.query)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
