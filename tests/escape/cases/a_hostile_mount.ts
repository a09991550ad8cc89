// expect: value "blocked"
// proves: E9, T4
// mounts: hostile
// tries: leave through a mounted directory, which Deno may read: by its links and sockets; write in it
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
const OUT = /^(NotCapable|NotFound|PermissionDenied)/;
for (const name of ["secret", "old", "link", "up@secret@", "../../@secret@", "../../proc/self/environ"]) {
  await refused(name, OUT, () => Deno.readTextFileSync(`/mnt/hostile/${name}`));
}
await refused("write", /^(NotCapable|PermissionDenied|Error)/, () => Deno.writeTextFileSync("/mnt/hostile/writable", "x"));
await refused("socket", /^(NotCapable|PermissionDenied|Error)/, () => Deno.connect({ transport: "unix", path: "/mnt/hostile/stream" } as unknown as Deno.ConnectOptions));
await refused("remove", /^(NotCapable|PermissionDenied|Error)/, () => Deno.removeSync("/mnt/hostile/writable"));
// Deno follows a link that lies in a readable directory. What it finds behind it is the sandbox, not the host.
await refused("root", OUT, () => Deno.readTextFileSync("/mnt/hostile/up/etc/shadow"));
await refused("proc", OUT, () => Deno.readTextFileSync("/mnt/hostile/up/proc/1/environ"));
if (Deno.readTextFileSync("/mnt/hostile/writable") !== "untouched") wrong.evidence = "the mount can't be read";
Object.keys(wrong).length ? wrong : "blocked";
