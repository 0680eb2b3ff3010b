// The same call elsewhere: as curl, as our command, and as a program in Python.

const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Texts by the id of what runs them. */
export function callSamples(tool, given) {
  return { curl: curl(tool, given), python: python(tool, given), command: command(tool, given) };
}

function curl(tool, given) {
  return [
    `curl -s ${location.origin}/tools/${tool} \\`,
    '  -H "Authorization: Bearer $(mcp-agent token show)" \\',
    "  -H 'Content-Type: application/json' \\",
    `  -d ${quote(JSON.stringify(given))}`,
  ].join("\n");
}

function command(tool, given) {
  const pairs = Object.entries(given).map(([name, value]) =>
    quote(`${name}=${typeof value === "string" ? value : JSON.stringify(value)}`),
  );
  return ["mcp-agent call", tool, ...pairs].join(" ");
}

function python(tool, given) {
  return `import asyncio
import json
from pathlib import Path

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

token = Path("~/.local/state/mcp-agent/token").expanduser().read_text().strip()
arguments = json.loads(${JSON.stringify(JSON.stringify(given))})


async def main():
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=None) as http:
        async with streamable_http_client("${location.origin}/mcp", http_client=http) as (read, write, *_):
            async with ClientSession(read, write) as session:
                await session.initialize()
                result = await session.call_tool("${tool}", arguments)
                print(result.content[0].text)


asyncio.run(main())`;
}
