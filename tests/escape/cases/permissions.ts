// expect: value "blocked"
// proves: E9
// tries: ask for permissions, also so that a prompt would show another text, and see what is granted
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
const out: string[] = [];
for (const name of ["run", "net", "env", "sys", "ffi"] as Deno.PermissionName[]) {
  for (const ask of [Deno.permissions.query, Deno.permissions.request]) {
    const state = (await ask.call(Deno.permissions, { name } as Deno.PermissionDescriptor)).state;
    if (state !== "denied" && state !== "prompt") wrong[name] = `ESCAPED: ${state}`;
  }
}
for (const path of ["/", "/etc", "/proc/self/mem", "/tmp/../etc"]) {
  const state = (await Deno.permissions.request({ name: "read", path })).state;
  if (state === "granted") wrong[path] = `ESCAPED: ${state}`;
}
for (const spoof of ["/tmp/\u001b[2K\u001b[1Aallow?", "/etc/\r\n y"]) {
  const state = (await Deno.permissions.request({ name: "write", path: spoof })).state;
  if (state === "granted" && !spoof.startsWith("/tmp")) wrong.spoof = `ESCAPED: ${state}`;
}
await refused("prompt", /^$/, () => { if (prompt("allow?") !== null || confirm("allow?")) return "answered"; throw Object.assign(new Error(""), { name: "" }); }).then(() => delete wrong.prompt);
Object.keys(wrong).length ? wrong : "blocked";
