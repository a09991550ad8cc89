// expect: value "blocked"
// proves: E9, T4
// tries: read and write outside the scratch directory: by path, .., links, the host's secret, own memory and environment
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
for (const path of ["/etc/passwd", "@secret@", "/proc/self/mem", "/proc/self/environ", "/proc/1/environ", "/proc/self/maps",
  "/proc/self/root/etc/passwd", "/tmp/../etc/passwd", "/opt/gloveport/init.py", "/dev/stdin", "/dev/null", "/run/gloveport/x", "file:///etc/passwd"]) {
  await refused(`read ${path}`, /^(NotCapable|NotFound)/, () => Deno.readTextFileSync(path.startsWith("file:") ? new URL(path) : path));
  await refused(`write ${path}`, /^(NotCapable|NotFound)/, () => Deno.writeTextFileSync(path.startsWith("file:") ? new URL(path) : path, "x"));
  await refused(`stat ${path}`, /^(NotCapable|NotFound)/, () => Deno.statSync(path.startsWith("file:") ? new URL(path) : path));
}
await refused("list", NO, () => [...Deno.readDirSync("/")]);
await refused("mem", NO, () => Deno.openSync("/proc/self/mem", { read: true, write: true }));
await refused("symlink", NO, () => Deno.symlinkSync("/etc/passwd", "/tmp/link"));
await refused("hard link", NO, () => Deno.linkSync("/etc/passwd", "/tmp/link"));
await refused("copy", NO, () => Deno.copyFileSync("/etc/passwd", "/tmp/copy"));
await refused("rename", NO, () => Deno.renameSync("/opt/gloveport", "/tmp/x"));
await refused("chdir", NO, () => Deno.chdir("/etc"));
Deno.writeTextFileSync("/tmp/own", "x");
Object.keys(wrong).length ? wrong : "blocked";
