// expect: value "blocked"
// proves: E9
// limits: memory_bytes=1GiB
// tries: get more in a worker than the program has: from a file, a blob and a data URL
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
const code = `const out = [];
for (const attempt of [() => Deno.readTextFileSync("/etc/passwd"), () => new Deno.Command("id").outputSync(), () => Deno.env.toObject(), () => Deno.listen({port: 0})]) {
  try { out.push("ESCAPED " + attempt()); } catch (error) { out.push(error.name); }
}
postMessage(out.join(" "));`;
Deno.writeTextFileSync("/tmp/worker.js", code);
for (const url of ["file:///tmp/worker.js", "data:text/javascript," + encodeURIComponent(code), URL.createObjectURL(new Blob([code], { type: "text/javascript" }))]) {
  const worker = new Worker(url, { type: "module" });
  const said = await new Promise((yes) => {
    worker.onmessage = (event) => yes(event.data);
    worker.onerror = (event) => { event.preventDefault(); yes("error " + event.message); };
  });
  worker.terminate();
  if (said !== "NotCapable NotCapable NotCapable NotCapable") wrong[url.slice(0, 20)] = String(said);
}
Object.keys(wrong).length ? wrong : "blocked";
