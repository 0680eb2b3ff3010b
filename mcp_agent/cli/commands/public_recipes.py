"""How a public name is led to the daemon, by each program that can do it.

The texts are for https://box.example and port 8765; docs/public.md shows them as they are.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

_URL, _HOST, _PORT = "https://box.example", "box.example", "8765"


class Recipe(NamedTuple):
    """`needs` says what must be there before, and `text` is to be typed or written into a file."""

    title: str
    needs: str
    text: str

    def filled(self, url: str, port: int) -> str:
        """The text for that public URL and that port of the daemon."""
        host = urlsplit(url).hostname or ""
        return self.text.replace(_PORT, str(port)).replace(_URL, url).replace(_HOST, host)


RECIPES = {
    "caddy": Recipe(
        "Caddy, on this machine",
        "the name leads to this machine, and ports 80 and 443 come through; Caddy gets the certificate itself",
        """\
# /etc/caddy/Caddyfile, then: sudo systemctl reload caddy
box.example {
    reverse_proxy 127.0.0.1:8765
}
""",
    ),
    "nginx": Recipe(
        "nginx, on this machine",
        "the name leads to this machine, port 443 comes through, and there is a certificate (certbot)",
        """\
# /etc/nginx/conf.d/mcp-agent.conf, then: sudo nginx -s reload
server {
    listen 443 ssl;
    server_name box.example;
    ssl_certificate     /etc/letsencrypt/live/box.example/fullchain.pem;
    ssl_certificate_key /etc/letsencrypt/live/box.example/privkey.pem;
    client_max_body_size 16m;
    location / {
        proxy_pass http://127.0.0.1:8765;
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        proxy_buffering off;
        proxy_read_timeout 1h;
    }
}
""",
    ),
    "cloudflared": Recipe(
        "a tunnel of Cloudflare",
        "the domain is on Cloudflare; no open port, and no certificate of your own",
        """\
cloudflared tunnel login
cloudflared tunnel create mcp-agent
cloudflared tunnel route dns mcp-agent box.example
cloudflared tunnel run --url http://127.0.0.1:8765 mcp-agent
""",
    ),
    "tailscale": Recipe(
        "a funnel of Tailscale",
        "Tailscale on this machine, with Funnel allowed; the name is the one that it prints, https://BOX.TAILNET.ts.net",
        """\
tailscale funnel --bg 8765
tailscale funnel status
""",
    ),
    "ssh": Recipe(
        "ssh -R, and a server on the internet",
        "the name leads to that server, where Caddy runs as in the recipe caddy; keep the command running (autossh)",
        """\
ssh -N -o ExitOnForwardFailure=yes -o ServerAliveInterval=30 -R 127.0.0.1:8765:127.0.0.1:8765 you@box.example
""",
    ),
    "tls": Recipe(
        "a certificate of your own, and nothing in between",
        "the name leads to this machine; the router forwards port 443 to 8765 of it",
        """\
mcp-agent serve --host 0.0.0.0 --tls-cert fullchain.pem --tls-key privkey.pem --public-url https://box.example
""",
    ),
    "tunnel-client": Recipe(
        "OpenAI's tunnel-client, for ChatGPT and Codex alone",
        "a tunnel id and a key of platform.openai.com; no public name and no OAuth, so nobody else comes in by it",
        """\
export CONTROL_PLANE_API_KEY=sk-...
tunnel-client init --sample sample_mcp_stdio_local --profile mcp-agent --tunnel-id tunnel_... \\
  --mcp-command "mcp-agent stdio --attach --profile read-only"
tunnel-client doctor --profile mcp-agent --explain
tunnel-client run --profile mcp-agent
""",
    ),
}
