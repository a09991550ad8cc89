// expect: value "blocked"
// proves: E9
// tries: start programs: Deno.Command, node:child_process with and without a shell (CVE-2026-27190, -32260), cluster, exec
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
const OUT = /NotCapable|Requires (run|env|all) access|not implemented|not supported|EPERM|ERR_/;
await refused("command", NO, () => new Deno.Command("/bin/sh", { args: ["-c", "id"] }).outputSync());
await refused("itself", NO, () => new Deno.Command(Deno.execPath(), { args: ["run", "-A", "/tmp/x.ts"] }).spawn());
const child = await import("node:child_process");
const env = { PATH: "/usr/bin" };
await refused("exec", OUT, () => child.execSync("id", { env }));
await refused("file", OUT, () => child.execFileSync("/usr/bin/id", [], { env }));
for (const shell of [true, false, "/bin/bash"]) {
  for (const line of ["id", "id\nid", "id;id", "$(id)", "`id`"]) {
    const done = await Promise.resolve().then(() => child.spawnSync(line, ["a\nid", "`id`", "$(id)"], { shell, env })).catch((error) => ({ error, stdout: "" }));
    if (String(done.stdout ?? "").includes("uid=")) wrong[`spawn ${shell} ${line}`] = "ESCAPED: " + done.stdout;
    if (!done.error) wrong[`spawn ${shell} ${line}`] = "no error";
  }
}
await refused("fork", OUT, () => child.fork("/tmp/x.js", [], { env }));
await refused("kill", NO, () => Deno.kill(1, "SIGKILL"));
Object.keys(wrong).length ? wrong : "blocked";
