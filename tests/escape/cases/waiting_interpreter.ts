// expect: value "blocked"
// proves: E9, T4
// runs: 2
// tries: find in an interpreter that has waited what an earlier program, or the waiting, has left
const wrong: Record<string, unknown> = {};
const known = new Set(["tests"]);
for (const place of ["/tmp"]) if ([...Deno.readDirSync(place)].length) wrong[place] = "not empty";
if ((globalThis as any).marked) wrong.global = "ESCAPED: marked by another";
(globalThis as any).marked = true;
if ((Object.prototype as any).marked) wrong.prototype = "ESCAPED";
(Object.prototype as any).marked = true;
if (Deno.args.length) wrong.args = Deno.args;
if (Math.max(...Object.keys(Deno.resources?.() ?? {}).map(Number), 0) > 8) wrong.resources = (Deno as any).resources();
const input = new Uint8Array(10);
const read = Deno.stdin.readSync(input);
if (read) wrong.stdin = `ESCAPED: ${read} bytes`;
delete (Object.prototype as any).marked;
Object.keys(wrong).length ? wrong : "blocked"
