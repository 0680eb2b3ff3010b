"""OAuth 2.1 for clients that take nothing else: claude.ai, ChatGPT, and whatever has only a field for a URL.

Loaded only where `public_url` is set. It is written by hand because the libraries do less and cost more:
`mcp.server.auth` takes 420 ms and 38 MB to import, registers `javascript:` redirects, ignores `resource`, and knows
neither metadata documents nor `iss`; Authlib is synchronous, and has neither documents nor RFC 9728.
"""
