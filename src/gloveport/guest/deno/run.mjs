/**
 * Run one TypeScript or JavaScript program in this Deno and report its outcome.
 *
 * The job comes on standard input as JSON `{source, name, language, types, value_bytes, hub, packages}` and is read to its end; the
 * report goes to the file that the first argument names, a line each time there is one, of which the last counts. Its shape is
 * that of `guest/python/program.py`, with `last` if nothing of the program runs after it. It is written when Deno ends the
 * program. `hub` is the address of the door to tools, or empty, and `packages` the directory of npm packages. The code for
 * tools is in `run_with_tools.mjs`: programs without tools don't wait for it.
 * With `wait` as the second argument this warms up all that a program needs, writes a line that is no report, and the byte
 * "R" to standard output, and only then reads. An empty input ends it quietly: no program has come.
 *
 * The program is a module of its own (a blob: no permission is needed to load it, and what it imports is checked against
 * Deno's). Types are erased and its last expression becomes its default export, which is its value; an inline source map
 * turns positions in stacks back into `name:line:column`. A program with a top-level `return` becomes an async function.
 * Code in `types`, TypeScript declarations that are not the program's own, comes before the program.
 * Decorators and `accessor` are turned into JavaScript by Deno, so it gets a module with them as TypeScript. A program that
 * can't be parsed runs unchanged, without a value: Deno reports its errors.
 *
 * Invariants: the program's globals lead to nothing of this module but its listeners, which Deno shows (and tools, if there
 * are any), and globals that the report needs are saved before the program is loaded. A program can't tell whether this has
 * waited, but by its clocks, node's modules, which are loaded already, and `Deno.args` of its workers. The program shares
 * this process, so the report is no more trustworthy than the program.
 *
 * What counts as JSON: null, booleans, finite numbers, well-formed strings, arrays without holes, and plain objects with
 * string keys and no accessors, nested at most 100 deep; members that are undefined are left out. Anything else is shown as
 * `Deno.inspect` shows it.
 */
import { parseModule } from "./syntax.mjs";

const { parse: fromJson, stringify } = JSON;
const { args, cwd, exit, inspect, openSync, stdin, stdout } = Deno;
const { NotCapable } = Deno.errors;
const getExitCode = Object.getOwnPropertyDescriptor(Deno, "exitCode").get;
const { assign, defineProperty, getPrototypeOf, setPrototypeOf, prototype: PLAIN_OBJECT } = Object;
const { getOwnPropertyDescriptor, ownKeys } = Reflect;
const { isArray, prototype: PLAIN_ARRAY } = Array;
const { isFinite, isInteger } = Number;
const { Blob, Error, ErrorEvent, PromiseRejectionEvent, SyntaxError, URL } = globalThis;
const { createObjectURL, revokeObjectURL } = URL;
const readStdin = stdin.readSync.bind(stdin);
const addEventListener = globalThis.addEventListener.bind(globalThis);
const dispatchEvent = globalThis.dispatchEvent.bind(globalThis);
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];
const encode = encoder.encode.bind(encoder);
const decode = decoder.decode.bind(decoder);

let stripTypeScriptTypes; // node's, once it is needed: to import it again would take a turn of the event loop

const OWN = new URL(".", import.meta.url).href;
const DEPTH = 100;
const TEXT_BYTES = 16 * 1024;
const NEVER = "Top-level await promise never resolved";
const OWN_SCOPE = new Set(["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression", "ClassBody"]);
const NEWLINE = /\r\n|[\n\r\u2028\u2029]/;
const TOKEN = /\r\n|[\n\r\u2028\u2029]|[\w$]+|[^\s\w$]/g;
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// -- Compile ----------------------------------------------------------------------------------------------------------

/** The module: `{ text, type, ahead }`, with `ahead` unmapped lines before the program. Throws SyntaxError. */
async function compile({ source, name, language, types, hub }) {
  const typed = language === "typescript";
  const declared = types ? await codeOf(types) : "";
  let program = typed && looksTyped(source) ? null : parseModule(source);
  let [text, mappings] = [source, null];
  if (!program && typed) {
    ({ text, mappings } = await eraseTypes(source, name));
    program = parseModule(text);
  }
  if (program && hub && /["']skills["']/.test(text)) {
    text = takeSkills(program, text);
    program = parseModule(text);
  }
  if (!program) {
    text = declared ? declared + source.replace(/^#!.*/, "") : source;
    return { text, type: typed ? "application/typescript" : "text/javascript", ahead: countLines(declared) };
  }
  const edits = editsOf(program, text, declared);
  mappings = mappings ? moveLines(mappings, text, edits) : mapIdentity(text, edits);
  const map = stringify({ version: 3, sources: [urlOf(name)], names: [], mappings: mappings.join(";") });
  const comment = `\n//# sourceMappingURL=data:application/json;base64,${encode(map).toBase64()}`;
  const type = program.isLowered ? "application/typescript" : "text/javascript";
  return { text: applyEdits(text, edits) + comment, type, ahead: 0 };
}

/** The text with imports of "skills", which is no module, replaced by declarations on as many lines. */
function takeSkills({ body }, text) {
  let [result, from] = ["", 0];
  for (const node of body) {
    if (node.type !== "ImportDeclaration" || node.source.value !== "skills") continue;
    const lines = text.slice(node.start, node.end).replace(/[^\n]/g, "");
    result += text.slice(from, node.start) + declareSkills(node) + lines;
    from = node.end;
  }
  return result + text.slice(from);
}

/** The declaration for an import of "skills". */
export function declareSkills({ specifiers }) {
  const names = specifiers.map(({ type, imported, local }) => {
    if (type !== "ImportSpecifier") return `${local.name} = globalThis.skills`;
    const name = imported.type === "Literal" ? imported.value : imported.name;
    return `${local.name} = globalThis.skills[${stringify(name)}]`;
  });
  return names.length ? `const ${names.join(", ")};` : ";";
}

/** The URL from which Deno loads a module. */
function publish({ text, type }) {
  return createObjectURL(new Blob([text], { type }));
}

/** The URL by which stacks name the program: Deno takes none but URLs from a source map. */
function urlOf(name) {
  return new URL(encodeURI(name), "file:///").href;
}

/**
 * Tell whether to erase types without checking that there are any. This is needed for `f<T>(x)`, which JavaScript parses
 * as two comparisons; elsewhere it saves time.
 */
function looksTyped(text) {
  return /[^=]>\s*[(`]|(?:\b(?:const|let|var)\s|\()\s*\w+\s*:/.test(text);
}

/** `{ text, mappings }`: the program without types, each statement on a line of its own. Throws SyntaxError. */
async function eraseTypes(source, name) {
  // Loaded here since it takes Deno longer than all the rest, and a program without types does not need it.
  stripTypeScriptTypes ??= (await import("node:module")).stripTypeScriptTypes;
  const marker = "\n//# sourceMappingURL=data:application/json;base64,";
  try {
    const output = stripTypeScriptTypes(source, { mode: "transform", sourceMap: true });
    const end = output.lastIndexOf(marker);
    const { mappings } = fromJson(decode(Uint8Array.fromBase64(output.slice(end + marker.length))));
    return { text: output.slice(0, end + 1), mappings: mappings.split(";") };
  } catch (error) {
    const failure = new SyntaxError(error.message.split("\n")[0].replace(/^SyntaxError: /, ""));
    failure.stack = error.message.replace(/file:\/\/\/stripTypeScriptTypes\.ts/g, () => name);
    throw failure;
  }
}

/** The code in declarations, such as enums, ending its line; mostly there is none. Throws SyntaxError. */
async function codeOf(types) {
  try {
    const { text } = await eraseTypes(types, "types");
    const program = parseModule(text);
    if (!program || program.isLowered) throw new SyntaxError("they hold code that can't be read");
    return program.body.length ? `;${text.trimEnd()}\n` : "";
  } catch (error) {
    error.message = `in the types of the APIs, not in the program: ${error.message}`;
    throw error;
  }
}

/**
 * Insertions that make the program's value its default export, with `declared` before it: `[{ at, text }]`, each text
 * ending its line.
 */
function editsOf(program, text, declared) {
  const { body, bareAccessors } = program;
  const first = body.findIndex((node) => node.type !== "ImportDeclaration");
  if (first < 0) return [];
  const edits = declared ? [{ at: body[first].start, text: declared }] : [];
  if (text.includes("import.meta.main")) edits.push({ at: body[first].start, text: ";import.meta.main=true;\n" });
  const last = body.findLast((node) => !isIdle(node));
  const value = last?.type === "ExpressionStatement" ? last.expression : null;
  if (text.includes("return") && body.some(returns)) {
    if (body.some((node, index) => index >= first && /^(Im|Ex)port.*Declaration$/.test(node.type))) {
      throw new SyntaxError(
        "a program with a top-level return can't export, and its imports must stand before all else",
      );
    }
    edits.push({ at: body[first].start, text: ";export default await (async () => {\n" });
    if (value) edits.push({ at: value.start, text: ";return (0,\n" }, { at: value.end, text: ")\n" });
    edits.push({ at: body.at(-1).end, text: "\n})();\n" });
  } else if (value && !body.some((node) => node.type === "ExportDefaultDeclaration")) {
    edits.push({ at: value.start, text: ";export default (0,\n" }, { at: value.end, text: ")\n" });
  }
  for (const at of bareAccessors) edits.push({ at, text: "@(() => {})\n" }); // changes nothing: Deno needs one to see it
  return edits.sort((a, b) => a.at - b.at);
}

/** Tell whether a statement does nothing where it stands. */
export function isIdle({ type, kind, declarations }) {
  if (type === "VariableDeclaration") return kind === "var" && declarations.every(({ init }) => !init);
  return type === "FunctionDeclaration" || type === "EmptyStatement";
}

/** Tell whether `node` holds a `return` that belongs to no function. */
export function returns(node) {
  if (node.type === "ReturnStatement") return true;
  if (OWN_SCOPE.has(node.type)) return false;
  return Object.values(node).some((part) =>
    isArray(part) ? part.some((item) => item?.type && returns(item)) : part?.type && returns(part)
  );
}

function applyEdits(text, edits) {
  let [result, from] = ["", 0];
  for (const edit of edits) {
    result += text.slice(from, edit.at) + edit.text;
    from = edit.at;
  }
  return result + text.slice(from);
}

/** Mappings, by generated line, of a text to itself after `edits`. */
function mapIdentity(text, edits) {
  const lines = [""];
  let [line, lineStart, generatedStart, next] = [0, 0, 0, 0];
  let [lastGenerated, lastLine, lastColumn] = [0, 0, 0];
  for (const { 0: token, index } of text.matchAll(TOKEN)) {
    for (; next < edits.length && edits[next].at <= index; next++) {
      for (let rest = countLines(edits[next].text); rest > 0; rest--) lines.push("");
      [generatedStart, lastGenerated] = [edits[next].at, 0];
    }
    if (NEWLINE.test(token)) {
      lines.push("");
      lineStart = generatedStart = index + token.length;
      line++;
      lastGenerated = 0;
      continue;
    }
    const [generated, column] = [index - generatedStart, index - lineStart];
    const segment = vlq(generated - lastGenerated) + "A" + vlq(line - lastLine) + vlq(column - lastColumn);
    lines[lines.length - 1] += (lines.at(-1) && ",") + segment;
    [lastGenerated, lastLine, lastColumn] = [generated, line, column];
  }
  return lines;
}

/** Move the mappings of `text`, by generated line, to where `edits` put the lines. */
function moveLines(mappings, text, edits) {
  for (const { at, text: inserted } of edits.toReversed()) {
    const before = text.slice(0, at);
    const line = countLines(before) + (/(?:^|\n) *$/.test(before) ? 0 : 1);
    mappings.splice(line, 0, ...Array(countLines(inserted)).fill(""));
  }
  return mappings;
}

function countLines(text) {
  return text.split("\n").length - 1;
}

/** A number as source maps write it. */
function vlq(number) {
  let [rest, digits] = [number < 0 ? (-number << 1) | 1 : number << 1, ""];
  do {
    digits += DIGITS[(rest & 31) | (rest > 31 ? 32 : 0)];
    rest >>>= 5;
  } while (rest);
  return digits;
}

// -- Value ------------------------------------------------------------------------------------------------------------

/** The report's three keys for the program's value. */
export function describeValue(value, limit) {
  const room = { left: limit };
  try {
    const plain = copyJson(value ?? null, room, 0);
    room.left = limit - encode(stringify(plain)).length;
    if (room.left >= 0) return { value: plain, value_type: null, value_truncated: false };
  } catch { /* no JSON, or too large */ }
  const text = show(value);
  const encoded = encode(text);
  const whole = encoded.length <= limit;
  return {
    value: whole ? text : decode(encoded.subarray(0, limit - 3), { stream: false }).replace(/\uFFFD+$/, "") + "…",
    value_type: typeName(value),
    value_truncated: !whole || room.left < 0,
  };
}

/**
 * A copy made of JSON types that has no prototype, so that no `toJSON` is asked. Throws for anything else.
 * `room.left` falls by a lower bound of the encoded size and is negative when the value is too large.
 */
function copyJson(value, room, depth) {
  if ((room.left -= 1) < 0) throw null;
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number" && isFinite(value)) return value;
  if (typeof value === "string") {
    if ((room.left -= value.length) < 0 || !value.isWellFormed()) throw null;
    return value;
  }
  if (typeof value !== "object" || depth >= DEPTH) throw null;
  const prototype = getPrototypeOf(value);
  if (isArray(value) && prototype === PLAIN_ARRAY) return copyArray(value, room, depth);
  if (prototype !== null && prototype !== PLAIN_OBJECT) throw null;
  const copy = setPrototypeOf({}, null);
  for (const key of ownKeys(value)) {
    const property = getOwnPropertyDescriptor(value, key);
    if (typeof key !== "string" || !("value" in property)) throw null;
    if (property.enumerable && property.value !== undefined) {
      copyJson(key, room, DEPTH);
      copy[key] = copyJson(property.value, room, depth + 1);
    }
  }
  return copy;
}

function copyArray(value, room, depth) {
  if ((room.left -= value.length) < 0 || ownKeys(value).length !== value.length + 1) throw null;
  const copy = setPrototypeOf([], null);
  for (let index = 0; index < value.length; index++) {
    const property = getOwnPropertyDescriptor(value, index);
    if (!property || !("value" in property)) throw null;
    copy[index] = copyJson(property.value, room, depth + 1);
  }
  return copy;
}

/** The value as Deno prints it. */
function show(value) {
  try {
    return typeof value === "string" ? stringify(value) : inspect(value, { colors: false }).toWellFormed();
  } catch (error) {
    return `[${typeName(value)}: inspecting it threw ${typeName(error)}]`;
  }
}

/** Name of the value's class. */
export function typeName(value) {
  try {
    const name = value?.constructor?.name ?? getPrototypeOf(value)?.constructor?.name;
    return typeof name === "string" && name ? clip(name, 256) : "Object";
  } catch {
    return "Object";
  }
}

// -- Failure ----------------------------------------------------------------------------------------------------------

/** The report's `error`. `url` is the module's, `source` the program's text, which begins after `ahead` lines of it. */
export function describeError(error, { name, source, ahead = 0 }, url) {
  const position = RegExp(`${RegExp.escape(url)}:(\\d+)`, "g");
  const tidy = (text) =>
    text.replace(position, (_, line) => `${name}:${line - ahead}`).replaceAll(url, () => name).replaceAll(urlOf(name), () => name)
      .replace(/, run again with the --allow-\w+ flag/g, ": this sandbox has no such permission")
      .replace(/ in the node_modules directory\. Ensure you have[^\n]*/g, " in the environment");
  try {
    let [type, message] = nameAndMessage(error);
    let traceback = tidy(trace(error, 0));
    const syntax = /^SyntaxError: ([^\n]*)/.exec(message); // how Deno's module loader wraps it
    if (syntax) {
      [type, message] = ["SyntaxError", syntax[1]];
      traceback = traceback.replace(/^\w+: SyntaxError/, "SyntaxError");
    }
    traceback = withSourceLine(traceback, name, source);
    return {
      type: clip(type, 256),
      message: clip(tidy(message), TEXT_BYTES),
      traceback: clip(traceback, TEXT_BYTES),
      errno: errnoOf(error),
    };
  } catch (again) {
    return { type: typeName(error), message: `describing it threw ${typeName(again)}`, traceback: "", errno: null };
  }
}

function nameAndMessage(error) {
  if (!(error instanceof Error)) return [typeName(error), show(error)];
  const name = String(error.name);
  const message = String(error.message).replace(/(\n +at \S+:\d+:\d+)+$/, ""); // the module loader adds frames to it
  return [name === "Error" ? typeName(error) : name, message];
}

/** Stack, causes and gathered errors as Deno prints them, without the frames of Deno and of this module. */
function trace(error, depth) {
  if (!(error instanceof Error)) return `${depth ? "" : "Uncaught "}${show(error)}\n`;
  const lines = String(error.stack || error).split("\n");
  let text = lines.filter((line) => !isForeign(line)).join("\n").trimEnd() + "\n";
  if (depth === 10) return text;
  if (isArray(error.errors)) {
    text += error.errors.slice(0, 100).map((one) => trace(one, depth + 1).replace(/^(?=.)/gm, "    ")).join("");
  }
  return error.cause === undefined ? text : `${text}Caused by: ${trace(error.cause, depth + 1)}`;
}

/** Tell whether a line of a stack is a frame of Deno's own code or of the modules here. */
function isForeign(line) {
  return /^\s+at /.test(line) && (/[ (](ext|node|checkin):/.test(line) || line.includes(OWN));
}

/** Show the program's line of the first frame above the frames, and point at the column, as Deno does. */
function withSourceLine(traceback, name, source) {
  if (/^\d+ \| /m.test(traceback)) return traceback; // the module loader has shown it
  const lines = traceback.split("\n");
  const frame = lines.findIndex((line) => line.includes(`${name}:`) && / at /.test(line));
  const position = frame >= 0 && /:(\d+):(\d+)\)?$/.exec(lines[frame]);
  const line = position && source.split(NEWLINE)[position[1] - 1];
  if (!line || line.length > 1000) return traceback;
  const quotation = `${line}\n${line.slice(0, position[2] - 1).replace(/\S/g, " ")}^`;
  if (/^\s+at /.test(lines[frame])) lines.splice(frame, 0, quotation);
  else lines.splice(frame + 1, 0, quotation); // an early error of V8: its only position is on its first line
  return lines.join("\n");
}

/** Number of the operating system's error in `error` or what caused it, or null. */
function errnoOf(error) {
  for (let depth = 0; depth < DEPTH && error instanceof Error; depth++, error = error.cause) {
    const number = Math.abs(error.errno ?? / \(os error (\d+)\)/.exec(error.message)?.[1]);
    if (isInteger(number) && number > 0) return number;
  }
  return null;
}

/** `text` in about `limit` bytes: its head and its tail. */
function clip(text, limit) {
  text = String(text).toWellFormed();
  const encoded = encode(text);
  if (encoded.length <= limit) return text;
  const half = limit >> 1;
  const head = decode(encoded.subarray(0, half)).replace(/\uFFFD+$/, "");
  const tail = decode(encoded.subarray(-half)).replace(/^\uFFFD+/, "");
  return `${head}\n... ${encoded.length - limit} bytes left out ...\n${tail}`;
}

// -- Run --------------------------------------------------------------------------------------------------------------

/** Read a job to its end; `read` fills a buffer and returns how many bytes it has put there, or null at the end. */
function readJob(read) {
  let [bytes, size] = [new Uint8Array(65536), 0];
  for (let more; (more = read(bytes.subarray(size))) !== null;) {
    size += more;
    if (size < bytes.length) continue;
    const larger = new Uint8Array(2 * size);
    larger.set(bytes);
    bytes = larger;
  }
  if (!size) exit(0);
  return fromJson(decode(bytes.subarray(0, size)));
}

/** Treat errors that no handler of the program takes as its end. `fail` gets the error. */
function catchUncaught(fail) {
  let asking = false;
  const offer = (event, copy, reason) => {
    if (asking || handledByProcess(event.type)) return;
    event.preventDefault();
    event.stopImmediatePropagation(); // this listener is the first: the program's own get a copy, and decide
    asking = true;
    const unhandled = dispatchEvent(copy);
    asking = false;
    if (unhandled) fail(reason);
  };
  addEventListener("error", (event) => {
    const { error, message, filename, lineno, colno } = event;
    offer(event, new ErrorEvent("error", { error, message, filename, lineno, colno, cancelable: true }), error);
  });
  addEventListener("unhandledrejection", (event) => {
    const { promise, reason } = event;
    offer(event, new PromiseRejectionEvent("unhandledrejection", { promise, reason, cancelable: true }), reason);
  });
}

/** Tell whether listeners of node's `process` will decide about the event: Deno calls them last. */
function handledByProcess(type) {
  if (type !== "unhandledrejection") return false;
  try {
    const { process } = globalThis;
    return process.listenerCount("unhandledRejection") + process.listenerCount("uncaughtException") > 0;
  } catch {
    return false;
  }
}

/** A function that writes the report. The file is open from now on: a program may use up every other descriptor. */
function reporter(path) {
  const file = openSync(path, { create: true, write: true });
  const write = file.writeSync.bind(file);
  return (report) => {
    const bytes = encode(stringify(report && setPrototypeOf({ ...report }, null)) + "\n");
    for (let sent = 0; sent < bytes.length;) sent += write(bytes.subarray(sent));
  };
}

/** Give a program the names of a CommonJS module, as node would, but only if it uses them: loading them takes time. */
export async function installRequire(name, packages) {
  const { createRequire } = await import("node:module");
  const module = { exports: {}, filename: `${cwd()}/${name}` };
  const load = createRequire(module.filename);
  const loadPackage = packages && createRequire(`${packages}/${name}`);
  const require = (id) => {
    try {
      return loadPackage && /^[^./]/.test(id) ? loadPackage(id.replace(/^npm:/, "")) : load(id);
    } catch (error) {
      if (!(error instanceof NotCapable)) throw error; // of node_modules in directories above ours
      throw assign(new Error(`Cannot find module '${id}'`), { code: "MODULE_NOT_FOUND" });
    }
  };
  assign(require, load, { main: module });
  for (const [key, value] of [["require", require], ["module", module]]) {
    defineProperty(globalThis, key, { value, writable: true, configurable: true });
  }
}

/**
 * Prepare the report, call `ready`, then read the program and run it. `leave` is called when the report is written, before
 * the program's own exit listeners, with a function that writes the final report. `tools` is `tools.mjs`, or null.
 */
async function main(path, tools, ready, leave) {
  const write = reporter(path);
  const report = { value: null, value_type: null, value_truncated: false, error: null, exit_code: 0 };
  let job;
  let url; // the module's, once it has one
  let pending; // a value that is a promise, while it is one
  const fail = (error) => {
    report.error = setPrototypeOf(describeError(error, job, url), null);
    exit(1);
  };
  addEventListener("unload", () => {
    if (!report.error && pending !== undefined) assign(report, describeValue(pending, job.value_bytes));
    report.exit_code = getExitCode();
    write(report);
    leave(() => write({ ...report, exit_code: getExitCode(), last: true }));
  });
  catchUncaught(fail);
  ready(write);
  job = readJob(readStdin);
  url = job.name;
  try {
    job.source = job.source.replace(/^\uFEFF/, "");
    const module = await compile(job);
    job.ahead = module.ahead;
    url = publish(module);
    if (job.hub) tools.install(job.hub);
    if (/\brequire\b/.test(job.source)) await installRequire(job.name, job.packages);
    if (module.text.includes("await")) { // as one with a top-level return does now
      // Deno ends such a program without a last event, so this report stands unless another comes.
      const never = { type: "Error", message: NEVER, traceback: `Error: ${NEVER}\n`, errno: null };
      write({ ...report, error: never, exit_code: 1 });
    }
    const value = (await import(url)).default;
    pending = value;
    assign(report, describeValue(await value, job.value_bytes));
    pending = undefined;
  } catch (error) {
    fail(error);
  }
}

// -- Wait -------------------------------------------------------------------------------------------------------------

/** Programs that are read, run and fail in the usual ways. */
const SAMPLES = [
  "const x: number = 1;\nx",
  "const f = async (x: number): Promise<number> => { await null; return x; };\nreturn [await f(1)]",
  `type T = { a: string };
   function f<U>(x: U[], y = \`\${1}\`): U | null { return x?.[0] ?? null; }
   f<T>([{ a: "b" }])`,
  `interface A<T> extends Iterable<T> { readonly a: number; b?: string }
   class B<T> {
     static z: number = 2;
     #x = 1;
     constructor(private y: T) {}
     get x(): number { return this.#x; }
     async f() {}
   }
   for (const [k, v] of Object.entries({ a: 1, ["b"]: 2 })) if (k !== "a" && v > 1) [k, v].map((x) => x).join(", ");
   for (let i = 0; i < 1; i++) { try { JSON.parse("{"); } catch { continue; } finally { i += 1; } }
   while (false) switch (1 as number) { case 1: break; default: delete ({} as any).a; }
   let { c, ...d }: any = { c: /x/g.test("x") ? -1 : !0 }, e: unknown = typeof c;
   for (const { a } of [{ a: 1 }]) (a ?? 0) + 1;
   new Map([["a", [new B<number>(1), d, ...[e]]]])`,
  "null.x",
];

/**
 * Warm up all that a program will need: a short program takes most of its time for V8 to compile and Deno to load it. No
 * listener, global, resource or output may remain.
 */
async function warmUp() {
  for (const source of SAMPLES) {
    const sent = encode(stringify({ source, name: "program.ts", language: "typescript" }));
    const sizes = [sent.length, null];
    const job = readJob((buffer) => (buffer.set(sent), sizes.shift()));
    const url = publish(await compile(job));
    try {
      describeValue((await import(url)).default, TEXT_BYTES);
    } catch (error) {
      describeError(error, job, url);
    }
    revokeObjectURL(url);
  }
  const target = new EventTarget();
  target.addEventListener("warm", () => {}, { once: true });
  target.dispatchEvent(new Event("warm"));
  dispatchEvent(new Event("warm"));
  getExitCode();
  try {
    console.log({
      [Symbol.for("Deno.customInspect")]: () => {
        throw null;
      },
    });
  } catch { /* so nothing is printed */ }
}

/** Get ready, say so, and run the program that comes. */
async function wait(path, tools) {
  await warmUp();
  await tools?.warmUp();
  const { EventEmitter } = await import("node:events");
  const idle = () => {};
  new EventEmitter().on("exit", idle).emit("exit", 0);
  const internal = Deno[Deno.internal];
  const before = new Set(ownKeys(internal));
  process.on("exit", idle).off("exit", idle);
  for (const name of ownKeys(internal)) if (!before.has(name)) delete internal[name];
  await new Promise((resolve) => process.nextTick(resolve)); // at its end, Deno checks for remaining ticks
  // Else Deno would tear down V8, though the kernel frees its memory anyway. Node's process is loaded in any case.
  const onExit = EventEmitter.prototype.on.bind(process, "exit");
  const leave = (writeLast) =>
    onExit(() => {
      writeLast();
      exit();
    });
  const ready = (write) => {
    write(null); // no report, but the first line is slow, for its reader too
    stdout.writeSync(encode("R"));
  };
  main(path, tools, ready, leave);
}

/** Do what the arguments say. They are removed before node's process copies them. */
export function start(tools) {
  const [path, mode] = args.splice(0);
  if (mode === "wait") wait(path, tools);
  else main(path, tools, () => {}, () => {});
}

// This module must end before a program begins, as "load" tells.
if (import.meta.main) start(null);
