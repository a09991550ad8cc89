// expect: value "blocked"
// proves: N1, E9
// tries: reach the host by fetch, sockets, WebSocket, DNS, node:net, node:http, node:dgram, QUIC; listen
const wrong: Record<string, string> = {};
async function refused(what: string, pattern: RegExp, attempt: () => unknown) {
  try {
    wrong[what] = `ESCAPED: ${String(await attempt()).slice(0, 100)}`;
  } catch (error) {
    const said = `${(error as Error).name}: ${(error as Error).message}`;
    if (!pattern.test(said)) wrong[what] = said.slice(0, 200);
  }
}
const NO = /^NotCapable/;
const OUT = /NotCapable|Requires (net|read|all|env|sys) access|is not a function|unstable/;
const port = Number("@tcp@");
await refused("fetch", NO, () => fetch(`http://127.0.0.1:${port}/`));
await refused("fetch file", NO, () => fetch("file:///etc/passwd").then((answer) => answer.text()));
await refused("connect", NO, () => Deno.connect({ hostname: "127.0.0.1", port }));
await refused("tls", NO, () => Deno.connectTls({ hostname: "127.0.0.1", port }));
await refused("unix", NO, () => Deno.connect({ transport: "unix", path: "/tmp/x" } as unknown as Deno.ConnectOptions));
await refused("listen", NO, () => Deno.listen({ port: 0 }));
await refused("dns", /NotCapable|resolv|No such file/, () => Deno.resolveDns("example.com", "A"));
await refused("socket", /NotCapable|Requires net|insecure|denied/i, () => new WebSocket(`ws://127.0.0.1:${port}/`));
await refused("interfaces", NO, () => Deno.networkInterfaces());
const net = await import("node:net");
await refused("node:net", /./, () => new Promise((yes, no) => net.connect(port, "127.0.0.1").on("connect", yes).on("error", no)));
await refused("datagram", OUT, () => Deno.listenDatagram({ port: 0, transport: "udp" }));
const http = await import("node:http");
await refused("node:http", /./, () => new Promise((yes, no) => http.get(`http://127.0.0.1:${port}/`, yes).on("error", no)));
Object.keys(wrong).length ? wrong : "blocked";
