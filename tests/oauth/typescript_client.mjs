// The official TypeScript client, let in by OAuth: lists the tools and prints their names.
// Takes one JSON argument. Its browser is $BROWSER.

import { execFileSync } from "node:child_process";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const { modules, generation, document, url } = JSON.parse(process.argv[2]);
const require = createRequire(`${modules}/`);
const packages = { 1: ["sdk/client/index.js", "sdk/client/streamableHttp.js", "sdk/client/auth.js"], 2: ["client"] };
const sdk = Object.assign({}, ...packages[generation].map((name) => require(`@modelcontextprotocol/${name}`)));

let answered;
const answer = new Promise((resolve) => (answered = resolve));
const server = createServer((request, response) => {
  response.end("done");
  answered(new URL(request.url, "http://localhost").searchParams);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const redirectUrl = `http://localhost:${server.address().port}/callback`;
const kept = {};
const provider = {
  redirectUrl,
  clientMetadataUrl: document,
  clientMetadata: { client_name: "A TypeScript test", redirect_uris: [redirectUrl], token_endpoint_auth_method: "none" },
  state: () => "a-state",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (address) => void execFileSync(process.env.BROWSER, [address.href]),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};

async function connect() {
  const client = new sdk.Client({ name: "a-test", version: "1" });
  const transport = new sdk.StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  await client.connect(transport).catch(async (error) => {
    if (!(error instanceof sdk.UnauthorizedError)) throw error;
    const found = await answer;
    await transport.finishAuth(...(generation === 1 ? [found.get("code")] : [found]));
  });
  return client;
}

await connect();
const client = await connect();
const names = (await client.listTools()).tools.map((tool) => tool.name);
await client.close();
server.close();
console.log(JSON.stringify({ client: kept.client?.client_id ?? document, names }));
process.exit(0);
