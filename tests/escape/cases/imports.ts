// expect: value "blocked"
// proves: E9, E8, T4
// tries: import what must not be: remote, npm and jsr modules, files outside as JSON, text and code, WebAssembly of the host
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
const OUT = /no-remote|no-npm|remote specifier|npm specifiers|NotCapable|Requires read access|not a valid module type|Unsupported|not supported|Module not found/;
await refused("https", OUT, () => import("https://example.com/version.ts"));
await refused("http", OUT, () => import("http://127.0.0.1:@tcp@/x.js"));
await refused("npm", OUT, () => import("npm:chalk"));
await refused("jsr", OUT, () => import("jsr:@std/path"));
await refused("json", OUT, () => import("file:///etc/passwd", { with: { type: "json" } }));
await refused("text", OUT, () => import("file:///etc/passwd", { with: { type: "text" } }));
await refused("bytes", OUT, () => import("file:///etc/passwd", { with: { type: "bytes" } }));
await refused("code", OUT, () => import("file:///etc/passwd"));
await refused("secret", OUT, () => import("file://@secret@", { with: { type: "text" } }));
await refused("from data", OUT, () => import('data:text/javascript,export {default} from "file:///etc/passwd" with {type: "text"}'));
const { default: one } = await import("data:text/javascript,export default 1");
if (one !== 1) wrong.evidence = "data: modules are not loaded";
Object.keys(wrong).length ? wrong : "blocked";
