// expect: value "blocked"
// proves: E9
// tries: load native code: Deno.dlopen, process.dlopen, sqlite extensions, WebAssembly system interface, unsafe pointers
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
const OUT = /NotCapable|Requires (ffi|read|all) access|not implemented|not supported|is not a (constructor|function)|undefined|unstable|failed to open/i;
await refused("dlopen", NO, () => Deno.dlopen("/usr/lib/x86_64-linux-gnu/libc.so.6", { getpid: { parameters: [], result: "i32" } }));
// deno-lint-ignore no-explicit-any
await refused("napi", OUT, () => (process as any).dlopen({ exports: {} }, "/tmp/x.node"));
Deno.writeTextFileSync("/tmp/x.node", "x");
await refused("require", OUT, async () => (await import("node:module")).createRequire("file:///tmp/")("/tmp/x.node"));
const sqlite = await import("node:sqlite");
await refused("extension", OUT, () => new sqlite.DatabaseSync(":memory:", { allowExtension: true }));
await refused("database", OUT, () => new sqlite.DatabaseSync("/etc/passwd"));
await refused("attach", /denied|not authorized|NotCapable|unable|prohibited|Requires|too many attached|Error/, () => new sqlite.DatabaseSync(":memory:").exec("ATTACH '/etc/passwd' AS x; SELECT * FROM x.sqlite_master"));
await refused("pointer", OUT, () => Deno.UnsafePointer.create(1n));
await refused("wasi", OUT, async () => new ((await import("node:wasi")).WASI)({ version: "preview1", preopens: { "/x": "/etc" } }));
Object.keys(wrong).length ? wrong : "blocked";
