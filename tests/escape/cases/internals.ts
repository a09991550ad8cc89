// expect: value "blocked"
// proves: E9
// tries: reach Deno's operations beneath its permission checks: bootstrap, internal symbols, process.binding, inspector, vm
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
// deno-lint-ignore no-explicit-any
const deno = Deno as any;
if (deno.core !== undefined || (globalThis as any).__bootstrap !== undefined) wrong.core = "ESCAPED: it is there";
for (const key of Reflect.ownKeys(deno[deno.internal] ?? {})) {
  if (/^ops$/i.test(String(key))) wrong[String(key)] = "ESCAPED: operations";
}
// Deno leaves its operations in reach; each checks for itself.
const ops = deno[deno.internal]?.core?.ops ?? {};
for (const [name, ...args] of [
  ["op_ffi_ptr_create", 4096n], ["op_ffi_read_u64", null, 0], ["op_fs_chmod_sync", "/etc/passwd", 0o777], ["op_fs_remove_sync", "/etc/passwd", false],
  ["op_fs_rename_sync", "/etc/passwd", "/tmp/x"], ["op_fs_copy_file_sync", "/etc/passwd", "/tmp/x"], ["op_fs_link_sync", "/etc/passwd", "/tmp/x"],
  ["op_set_env", "LD_PRELOAD", "/tmp/x"], ["op_node_process_kill", 1, 9], ["op_node_open_sync", "/etc/passwd", 0, 0], ["op_fs_chdir", "/etc"],
  ["op_fs_stat_sync", "/etc/passwd", new Uint32Array(100)], ["op_require_stat", "/etc/passwd"], ["op_node_load_env_file", "/etc/passwd"],
  // deno-lint-ignore no-explicit-any
] as any[]) {
  if (name in ops) await refused(name, NO, () => ops[name](...args));
}
const OUT = /NotCapable|Requires|not implemented|not supported|No such module|undefined|is not a (function|constructor)|Cannot read/i;
// deno-lint-ignore no-explicit-any
await refused("binding", OUT, () => (process as any).binding("fs").open("/etc/passwd", 0, 0));
// deno-lint-ignore no-explicit-any
await refused("spawn", OUT, () => { const p = new (process as any).binding("spawn_sync").spawn({}); return p; });
await refused("inspector", OUT, async () => (await import("node:inspector")).open());
await refused("fs", /Requires read|NotCapable/, async () => (await import("node:fs")).readFileSync("/etc/passwd", "utf8"));
await refused("promises", /Requires read|NotCapable|ENOENT/, async () => (await import("node:fs/promises")).readFile("@secret@"));
await refused("vm", /Requires read|NotCapable|Deno is not defined/, async () => (await import("node:vm")).runInNewContext("Deno.readTextFileSync('/etc/passwd')"));
await refused("heap", /Requires|NotCapable|not implemented|EACCES|EPERM/, async () => (await import("node:v8")).writeHeapSnapshot("/etc/x"));
Object.keys(wrong).length ? wrong : "blocked";
