// The official TypeScript client on one wire: list, call, fail, be told of a change, list again.
// Takes one JSON argument and prints one JSON line when it listens and one with what it saw.

import { createRequire } from "node:module";

const { modules, generation, era, wire, url, token, server, file } = JSON.parse(process.argv[2]);
const require = createRequire(`${modules}/`);
const packages = {
  1: ["sdk/client/index.js", "sdk/client/streamableHttp.js", "sdk/client/sse.js", "sdk/client/stdio.js"],
  2: ["client", "client/stdio"],
};
const sdk = Object.assign({}, ...packages[generation].map((name) => require(`@modelcontextprotocol/${name}`)));

function transport() {
  const options = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
  switch (wire) {
    case "http":
      return new sdk.StreamableHTTPClientTransport(new URL(`${url}/mcp`), options);
    case "post-to-sse":
      return new sdk.StreamableHTTPClientTransport(new URL(`${url}/sse`), options);
    case "sse":
      return new sdk.SSEClientTransport(new URL(`${url}/sse`), options);
    case "stdio":
      return new sdk.StdioClientTransport(server);
  }
}

let told;
const changed = new Promise((resolve) => (told = resolve));
const client = new sdk.Client(
  { name: "a-test", version: "1" },
  {
    listChanged: { tools: { autoRefresh: false, onChanged: () => told() } },
    ...(generation === 2 && { versionNegotiation: { mode: era === "stateless" ? { pin: "2026-07-28" } : "legacy" } }),
  },
);
const names = async () => (await client.listTools()).tools.map((tool) => tool.name);

await client.connect(transport());
const seen = { server: client.getServerVersion().name, before: await names() };
const read = await client.callTool({ name: "fs_read", arguments: { path: file } });
seen.read = { text: JSON.parse(read.content[0].text), structured: read.structuredContent };
const missing = await client.callTool({ name: "fs_read", arguments: { path: "/nowhere/at-all" } });
seen.missing = { isError: missing.isError, code: missing.structuredContent.error.code };
seen.unknown = await client.callTool({ name: "fs_raed", arguments: {} }).then(
  () => "no error",
  (error) => error.code,
);
console.log(JSON.stringify("listening"));
await changed;
seen.after = await names();
await client.close();
console.log(JSON.stringify(seen));
