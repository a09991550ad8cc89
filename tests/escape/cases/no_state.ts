// expect: value "blocked"
// proves: E9, T4
// runs: 2
// tries: leave something for the next run: local storage, caches, key-value stores, files, broadcast channels
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
const stores = globalThis as any;
try { if (stores.localStorage?.getItem("mark")) wrong.local = "ESCAPED"; stores.localStorage?.setItem("mark", "1"); } catch { /* not there */ }
try { if (await (await stores.caches.open("mark")).match("http://x/")) wrong.caches = "ESCAPED"; } catch { /* not there */ }
const left = [...Deno.readDirSync("/tmp")].map((entry) => entry.name);
if (left.length) wrong.files = `ESCAPED: ${left}`;
Deno.writeTextFileSync("/tmp/mark", "1");
Object.keys(wrong).length ? wrong : "blocked";
