// expect: value "blocked"
// proves: T4, E9
// tries: read the environment and facts of the host: Deno.env, process.env, host name, users, memory, load, versions, ids
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
const OUT = /NotCapable|Requires (env|sys|read) access/;
await refused("env", NO, () => Deno.env.toObject());
await refused("one", NO, () => Deno.env.get("GLOVEPORT_CANARY"));
await refused("set", NO, () => Deno.env.set("LD_PRELOAD", "/tmp/x.so"));
await refused("hostname", NO, () => Deno.hostname());
await refused("load", NO, () => Deno.loadavg());
await refused("release", NO, () => Deno.osRelease());
await refused("uid", NO, () => Deno.uid());
await refused("memory", NO, () => Deno.systemMemoryInfo());
const os = await import("node:os");
await refused("user", OUT, () => os.userInfo().username);
await refused("interfaces", OUT, () => JSON.stringify(os.networkInterfaces()));
let text = "";
try { text = JSON.stringify({ ...process.env }); } catch { text = ""; }
if (/canary|GLOVEPORT/.test(text)) wrong.process = "ESCAPED: " + text;
Object.keys(wrong).length ? wrong : "blocked";
