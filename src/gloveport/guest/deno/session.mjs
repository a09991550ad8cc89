/**
 * Run one call of a session after the other in this Deno, in one global scope.
 *
 * `session.mjs HUB PACKAGES CALLS ANSWERS`: a call is a line of JSON on the pipe CALLS, `{call, do, language, path, name, value_bytes,
 * until}` with `do` one of "run", "variables" and "inspect" (of an `expression`); its answer one on ANSWERS, `{call,
 * report, variables}`, whose report has the shape of `run.mjs`. HUB is the address of the door to tools, or empty, and
 * PACKAGES the directory of npm packages.
 *
 * V8 evaluates a call like input of developer tools: top-level declarations stay and may be declared anew, and `await` may
 * stand anywhere. Before that, types are replaced by spaces, and `import` and `export`, which only modules have, by
 * equivalent code. A call with a top-level `return` becomes an async function, whose declarations are its own.
 *
 * An exit ends the call alone. V8 ends a call that still computes when its time is over. SIGINT ends a call's waiting; the
 * work that it awaits goes on, since nothing can end it. An uncaught error is written to standard error, and the process
 * goes on.
 */
import { Session } from "node:inspector";
import { stripTypeScriptTypes } from "node:module";
import process from "node:process";
import { types } from "node:util";
import { declareSkills, describeError, describeValue, installRequire, isIdle, returns, typeName } from "./run.mjs";
import { parseModule } from "./syntax.mjs";

const { parse: fromJson, stringify } = JSON;
const { inspect, readTextFileSync, cwd, stderr } = Deno;
const { now } = Date;
const { defineProperty, is, keys } = Object;
const { getOwnPropertyDescriptor, ownKeys } = Reflect;
const { isArray } = Array;
const { Error, Map, Promise, Set, SyntaxError, URL, WeakMap } = globalThis;
const toText = Function.prototype.call.bind(Error.prototype.toString);
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];

const OWN = new URL(".", import.meta.url).href;
const PREVIEW = 80;
const MOST_NAMES = 200;
const INSPECTED = 16 * 1024;
const ENDED = "the call was interrupted";
const LEFT = "the call was interrupted; what it awaits goes on";

const session = new Session();
session.connect();

/** Send a request to V8's inspector, in this process. Code that it evaluates has run when this returns its promise. */
function ask(method, parameters) {
  return new Promise((resolve, reject) =>
    session.post(method, parameters, (error, answer) => error ? reject(error) : resolve(answer))
  );
}

// -- Compile ----------------------------------------------------------------------------------------------------------

const lines = new Map(); // name of a call whose lines were moved → for each line of its code, that of the caller's

/** `{ text, hasValue }`: the call as V8 takes it. Throws SyntaxError. */
function compile(source, { name, language }) {
  const text = language === "typescript" ? eraseTypes(source, name) : source;
  const program = parseModule(text);
  if (!program) return { text, hasValue: true }; // V8 says what is wrong with it
  const { body } = program;
  const last = body.findLast((node) => !isIdle(node));
  const hasValue = last?.type === "ExpressionStatement" || last?.type === "ExportDefaultDeclaration";
  const edits = [];
  for (const node of body) editModule(node, text, edits);
  if (text.includes("import")) body.forEach((node) => editImports(node, name, edits));
  if (!text.includes("return") || !body.some(returns)) return { text: apply(text, edits), hasValue };
  if (last.type === "ExpressionStatement") {
    edits.push({ start: last.start, end: last.start, text: "return (" }, { start: endOf(last, text), end: last.end, text: ")" });
  }
  return { text: `await (async () => {${apply(text, edits)}\n})()`, hasValue: true };
}

/** The text without types. TypeScript code that is no type, such as an enum, moves the lines. */
function eraseTypes(source, name) {
  try {
    return stripTypeScriptTypes(source, { mode: "strip" });
  } catch { /* there is more to it than types */ }
  try {
    const output = stripTypeScriptTypes(source, { mode: "transform", sourceMap: true });
    const [text, map] = output.split("\n//# sourceMappingURL=data:application/json;base64,");
    lines.set(name, linesOf(fromJson(decoder.decode(Uint8Array.fromBase64(map))).mappings));
    return text;
  } catch (error) {
    const failure = new SyntaxError(error.message.split("\n")[0].replace(/^SyntaxError: /, ""));
    failure.stack = error.message.replace(/file:\/\/\/stripTypeScriptTypes\.ts/g, () => name);
    throw failure;
  }
}

/** The source line, from 1, of each line's first segment in a source map's mappings. */
function linesOf(mappings) {
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const found = [];
  let line = 0;
  for (const segments of mappings.split(";")) {
    let first = null;
    for (const segment of segments ? segments.split(",") : []) {
      const numbers = [];
      let [number, shift] = [0, 0];
      for (const digit of segment) {
        const bits = digits.indexOf(digit);
        number |= (bits & 31) << shift;
        shift += 5;
        if (bits & 32) continue;
        numbers.push(number & 1 ? -(number >> 1) : number >> 1);
        [number, shift] = [0, 0];
      }
      line += numbers[2] ?? 0;
      first ??= line;
    }
    found.push((first ?? line) + 1);
  }
  return found;
}

/** Where an expression statement's expression ends. */
function endOf(node, text) {
  return text[node.end - 1] === ";" ? node.end - 1 : node.end;
}

/** The replacement for a top-level statement that only modules have. */
function editModule(node, text, edits) {
  const { start, end, type, source } = node;
  const replace = (to, by) => edits.push({ start, end: to, text: by + text.slice(start, to).replace(/[^\n]/g, "") });
  if (type === "ImportDeclaration") replace(end, isOfSkills(node) ? declareSkills(node) : importOf(node));
  else if (type === "ExportAllDeclaration") replace(end, `await import(${stringify(urlOf(source.value))});`);
  else if (type === "ExportNamedDeclaration") replace(node.declaration?.start ?? end, ";");
  else if (type === "ExportDefaultDeclaration") {
    const isNamed = /^(Function|Class)Declaration$/.test(node.declaration.type) && node.declaration.id;
    replace(node.declaration.start, isNamed ? ";" : ";(");
    if (!isNamed) edits.push({ start: node.declaration.end, end: node.declaration.end, text: ")" });
  }
}

/** Whether an import is of skills, where there are any. */
function isOfSkills({ source }) {
  return source.value === "skills" && "skills" in globalThis;
}

/** The dynamic import for a static one. */
function importOf({ specifiers, source, attributes }) {
  const textOf = (name) => name.type === "Literal" ? stringify(name.value) : name.name;
  const settings = attributes?.length
    ? `, { with: { ${attributes.map(({ key, value }) => `${textOf(key)}: ${stringify(value.value)}`).join(", ")} } }`
    : "";
  const module = `await import(${stringify(urlOf(source.value))}${settings})`;
  const space = specifiers.find(({ type }) => type === "ImportNamespaceSpecifier");
  const names = specifiers.filter((one) => one !== space).map(({ type, imported, local }) =>
    `${type === "ImportDefaultSpecifier" ? "default" : textOf(imported)}: ${local.name}`
  );
  const object = `{ ${names.join(", ")} }`;
  if (space) return `const ${space.local.name} = ${module}${names.length ? `, ${object} = ${space.local.name}` : ""};`;
  return names.length ? `const ${object} = ${module};` : `${module};`;
}

/** The URL of a module: paths are relative to the current directory. */
function urlOf(specifier) {
  return /^\.{0,2}\//.test(specifier) ? new URL(specifier, `file://${encodeURI(cwd())}/`).href : specifier;
}

/** Edits of `import(…)` and `import.meta` wherever they stand. */
function editImports(node, name, edits) {
  const { type, start, end } = node;
  if (type === "ImportExpression" && node.source.type === "Literal") {
    edits.push({ start: node.source.start, end: node.source.end, text: stringify(urlOf(node.source.value)) });
  } else if (type === "MetaProperty" && node.meta.name === "import") {
    const meta = { url: urlOf(`./${name}`), main: true, filename: `${cwd()}/${name}`, dirname: cwd() };
    edits.push({ start, end, text: `(${stringify(meta)})` });
    return;
  }
  for (const part of Object.values(node)) {
    for (const inner of isArray(part) ? part : [part]) if (inner?.type) editImports(inner, name, edits);
  }
}

function apply(text, edits) {
  let [result, from] = ["", 0];
  for (const edit of edits.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
    if (edit.start < from) continue; // within what is replaced already
    result += text.slice(from, edit.start) + edit.text;
    from = edit.end;
  }
  return result + text.slice(from);
}

// -- Run --------------------------------------------------------------------------------------------------------------

let latestValue; // the value that V8's inspector has handed over
let taker; // the inspector's name for the function that takes it
let interrupt = null; // ends the running call
let packages = ""; // the directory of npm packages

/** The value that an answer of the inspector's stands for. */
async function take({ objectId, unserializableValue, value }) {
  const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value };
  const functionDeclaration = "function (value) { this(value); }";
  await ask("Runtime.callFunctionOn", { objectId: taker, functionDeclaration, arguments: [argument] });
  const result = latestValue;
  latestValue = undefined;
  return { result }; // in something: it may be a promise
}

/** `{ result }` of code; throws what it throws. */
async function evaluate(text, { name, until }) {
  const expression = `${text}\n//# sourceURL=${name}`;
  const timeout = Math.min(Math.max(until * 1000 - now(), 1), 2 ** 31 - 1);
  const settings = { replMode: true, awaitPromise: true, objectGroup: "call", timeout };
  let answer;
  try {
    answer = await ask("Runtime.evaluate", { expression, ...settings });
  } catch {
    throw new Interrupted(ENDED); // V8's only answer when it has ended a call
  }
  try {
    const { exceptionDetails: failure } = answer;
    if (!failure) return await take(answer.result);
    const error = failure.exception ? (await take(failure.exception)).result : new Error(failure.text);
    if (error instanceof SyntaxError && !error.stack.includes(`${name}:`)) {
      error.stack = `${toText(error)}\n    at ${positionOf(failure, text, name)}`;
    }
    throw error;
  } finally {
    ask("Runtime.releaseObjectGroup", { objectGroup: "call" }).catch(() => {});
  }
}

/** Where V8 has found an error: in the text that it was given, our code follows the caller's. */
function positionOf({ lineNumber, columnNumber }, text, name) {
  const textLines = text.split("\n");
  if (lineNumber < textLines.length) return `${name}:${lineOf(name, lineNumber + 1)}:${columnNumber + 1}`;
  return `${name}:${lineOf(name, textLines.length)}:${textLines.at(-1).length + 1}`;
}

class Interrupted extends Error {
  name = "Interrupted";
}

/** Ends a call and not the session, as in Python: V8's inspector would not survive an exit within a call. */
class Exit extends Error {
  name = "Exit";

  constructor(code = Deno.exitCode) {
    super(`exit ${code}`);
    this.code = Number(code) & 255;
  }
}

function exit(code) {
  throw new Exit(code);
}

/** The report on a call. */
async function answer(message) {
  const { call, do: what, value_bytes: limit } = message;
  const report = { value: null, value_type: null, value_truncated: false, error: null, exit_code: 0 };
  if (what === "variables") {
    const changed = (await list()).map(({ identity: _, ...variable }) => variable);
    return { call, report: null, variables: { changed, removed: [], is_complete: true } };
  }
  let source = "";
  try {
    const interrupted = new Promise((_, reject) => interrupt = () => reject(new Interrupted(LEFT)));
    const work = what === "inspect" ? show(message) : run(message, (text) => source = text);
    work.catch(() => {}); // it may fail when nobody listens any more
    Object.assign(report, describeValue((await Promise.race([work, interrupted])).result, limit));
  } catch (error) {
    report.exit_code = error instanceof Exit ? error.code : 1;
    if (!(error instanceof Exit)) report.error = describeError(error, { name: message.name, source }, message.name);
  } finally {
    interrupt = null;
  }
  return { call, report, variables: what === "run" ? await changes() : undefined };
}

/** `{ result }` of a call. `onSource` gets its text. */
async function run(message, onSource) {
  const source = readTextFileSync(message.path).replace(/^\uFEFF/, "");
  onSource(source);
  if (/\brequire\b/.test(source) && !("require" in globalThis)) await installRequire(message.name, packages);
  const { text, hasValue } = compile(source, message);
  const { result } = await evaluate(text, message);
  return { result: hasValue ? await result : null };
}

/** `{ result }`: the value of an expression, as text. */
async function show(message) {
  const { result: value } = await evaluate(`(${message.expression}\n)`, message);
  const { type, shape } = describe(value);
  const text = inspect(value, { depth: 4, iterableLimit: 100, strAbbreviateSize: INSPECTED });
  return { result: `${type}${shape ? ` [${shape}]` : ""}\n${text.slice(0, INSPECTED)}` };
}

// -- Variables --------------------------------------------------------------------------------------------------------

let hidden; // names of globals that are not the program's
let descriptions = new Map(); // name → its last description
const identities = new WeakMap(); // object → a number of its own
let last = 0;

/** All variables: `[{ name, type, shape, preview }]`. Those that have no value yet are left out. */
async function list() {
  const { names } = await ask("Runtime.globalLexicalScopeNames", {});
  const ours = [...new Set(names)].filter((name) => !name.startsWith("_")).slice(-MOST_NAMES);
  const expression = `({${ours.map((name) => `${name}: () => ${name}`).join(",")}})`;
  const { result: getters } = await take((await ask("Runtime.evaluate", { expression, replMode: true })).result);
  const found = [];
  for (const name of ours) {
    try {
      found.push({ name, ...describe(getters[name]()) });
    } catch { /* it has no value yet */ }
  }
  for (const name of ownKeys(globalThis)) {
    const property = typeof name === "string" && !hidden.has(name) && getOwnPropertyDescriptor(globalThis, name);
    if (property && "value" in property && !name.startsWith("_")) found.push({ name, ...describe(property.value) });
  }
  return found.slice(-MOST_NAMES);
}

/** The variables that have changed since the last time. */
async function changes() {
  const [before, changed] = [descriptions, []];
  descriptions = new Map();
  try {
    for (const { identity, ...variable } of await list()) {
      const text = stringify([variable, identity]);
      descriptions.set(variable.name, text);
      if (before.get(variable.name) !== text) changed.push(variable);
    }
  } catch {
    return { changed: [], removed: [], is_complete: false };
  }
  return { changed, removed: [...before.keys()].filter((name) => !descriptions.has(name)), is_complete: true };
}

/** `{ type, shape, preview, identity }` of a value. No code of the program's runs for it. */
function describe(value) {
  const kind = typeof value;
  if (value === null || kind === "undefined") return { type: String(value) };
  if (kind === "string") return { type: kind, shape: `${value.length}`, preview: clip(stringify(value.slice(0, PREVIEW).toWellFormed())) };
  if (kind !== "object" && kind !== "function") return { type: kind, preview: clip(is(value, -0) ? "-0" : String(value)) };
  if (!identities.has(value)) identities.set(value, ++last);
  const description = { type: kind === "function" ? kind : "Proxy", identity: identities.get(value) };
  if (kind === "function" || types.isProxy(value)) return description;
  description.type = typeName(value);
  if (isArray(value) || types.isTypedArray(value)) description.shape = `${value.length}`;
  else if (types.isMap(value) || types.isSet(value)) description.shape = `${value.size}`;
  else if (description.type === "Object") description.preview = clip(`{ ${keys(value).slice(0, 20).join(", ")} }`.toWellFormed());
  return description;
}

function clip(text) {
  return text.length > PREVIEW ? `${text.slice(0, PREVIEW - 1).toWellFormed()}…` : text;
}

// -- Stacks -----------------------------------------------------------------------------------------------------------

function lineOf(name, line) {
  return lines.get(name)?.[line - 1] ?? line;
}

/** A stack with the names of calls, which Deno leaves out, and without frames that are not the program's. */
function prepareStackTrace(error, sites) {
  const parts = [toText(error)];
  for (const site of sites) {
    const name = site.getScriptNameOrSourceURL();
    if (!name || /^(ext|node|checkin):/.test(name) || name.startsWith(OWN)) continue;
    let text = site.toString();
    if (!site.getFileName()) { // a call, which has a name only
      const position = `${name}:${lineOf(name, site.getLineNumber())}:`;
      text = text.replace(/[^(\s]*:\d+:(?=\d+\)?$)/, () => position);
    }
    parts.push(`    at ${text}`);
  }
  return parts.join("\n");
}

// -- Serve ------------------------------------------------------------------------------------------------------------

/** Write an uncaught error to standard error, and go on. */
function tellUncaught(event, error) {
  event.preventDefault();
  stderr.writeSync(encoder.encode(`Uncaught ${describeError(error, { name: "call", source: "" }, OWN).traceback}`));
}

/** See the module. */
async function serve([hub, packagesPath, calls, answers]) {
  packages = packagesPath;
  const [requests, replies] = [Deno.openSync(calls, { read: true }), Deno.openSync(answers, { write: true })];
  for (const path of [calls, answers]) Deno.removeSync(path);
  globalThis.taker = (value) => latestValue = value;
  taker = (await ask("Runtime.evaluate", { expression: "taker" })).result.objectId;
  delete globalThis.taker;
  if (hub) (await import("./tools.mjs")).install(hub);
  hidden = new Set([...ownKeys(globalThis), "require", "module"]);
  Deno.exit = process.exit = process.reallyExit = exit;
  defineProperty(Error, "prepareStackTrace", { value: prepareStackTrace, writable: true, configurable: true });
  Deno.addSignalListener("SIGINT", () => interrupt?.());
  addEventListener("error", (event) => tellUncaught(event, event.error));
  addEventListener("unhandledrejection", (event) => tellUncaught(event, event.reason));
  const buffer = new Uint8Array(1 << 16);
  for (let text = "", count; (count = await requests.read(buffer)) !== null;) {
    text += decoder.decode(buffer.subarray(0, count)); // all of it is ASCII
    for (let end; (end = text.indexOf("\n")) >= 0;) {
      const message = fromJson(text.slice(0, end));
      text = text.slice(end + 1);
      const bytes = encoder.encode(`${stringify(await answer(message))}\n`);
      for (let sent = 0; sent < bytes.length;) sent += replies.writeSync(bytes.subarray(sent));
    }
  }
}

await serve(Deno.args.splice(0));
