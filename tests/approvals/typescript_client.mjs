// The official TypeScript client on a call that waits for the owner. Takes one JSON argument; prints what the call gave
// and the messages of its progress.

import { createRequire } from "node:module";

const { modules, generation, era, url, token, command } = JSON.parse(process.argv[2]);
const require = createRequire(`${modules}/`);
const packages = { 1: ["sdk/client/index.js", "sdk/client/streamableHttp.js"], 2: ["client"] };
const sdk = Object.assign({}, ...packages[generation].map((name) => require(`@modelcontextprotocol/${name}`)));

const versions = { versionNegotiation: { mode: era === "stateless" ? { pin: "2026-07-28" } : "legacy" } };
const client = new sdk.Client({ name: "a-test", version: "1" }, generation === 2 ? versions : {});
const options = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
await client.connect(new sdk.StreamableHTTPClientTransport(new URL(`${url}/mcp`), options));
const progress = [];
const request = { name: "shell_exec", arguments: { command } };
const onprogress = ({ message }) => void progress.push(message);
const result = await (generation === 1
  ? client.callTool(request, undefined, { onprogress })
  : client.callTool(request, { onprogress }));
await client.close();
console.log(JSON.stringify({ result: result.structuredContent, progress }));
