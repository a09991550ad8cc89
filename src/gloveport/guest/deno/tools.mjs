/**
 * The globals by which a program calls tools of other MCP servers, and asks a language model. `install` defines them:
 *
 *     await tools.github.create_issue({ title: "x" })    one function a tool; names are exposed or original ones
 *     await tools["my-server"]["do-it"].blocks({...})    the same, but always a ToolResult with all that came
 *     await listTools(server?)                           the servers, or one of them with its tools
 *     await searchTools(query, { limit, detail })        the best tools: their "names", "signatures", or in "full"
 *     await searchTools(query, limit)                    the same in full
 *     await getToolSchema("mcp__server__tool")           what a tool takes and returns, or null
 *     await discoverMCPTools({ search: [...] })          the same of all tools, or of those found
 *     await callMCPTool("mcp__server__tool", {...})      the text of the first block, or else the whole MCP result
 *     await llm.ask(prompt, { systemPrompt, maxTokens, model, stream })
 *     await llm.think({ messages, systemPrompt, maxTokens, model, stream })
 *     await skills.salesReport({ month: 11 })            a skill, by its name in camel case or its own; its value.
 *                                                        `import { salesReport } from "skills"` gives the same
 *     await listSkills(name?)                            names of skills, or what one says of itself and takes
 *
 * A call returns structured content, else parsed JSON, else text; with other blocks, such as images, a ToolResult. A call
 * that is refused or fails throws ToolError, of a skill SkillError. `then` and `toJSON` are no tools, or a promise or JSON
 * of `tools` would call one: callMCPTool reaches tools of these names.
 *
 * Invariant, of `host.mjs` and `errors.mjs` too: the globals that they need are saved before the program is loaded.
 * Workers of the program have none of this.
 */
import { entry, Failure, SkillError, ToolError } from "./errors.mjs";
import { rehearsal, requester } from "./host.mjs";

const { stringify } = JSON;
const { connect, inspect, writeFile } = Deno;
const { create, defineProperties, defineProperty, entries, freeze, setPrototypeOf } = Object;
const { get: reflectGet } = Reflect;
const { isArray } = Array;
const { isFinite } = Number;
const { Proxy, TypeError, Uint8Array } = globalThis;
const { warn } = console;
const classOf = Function.prototype.call.bind(Object.prototype.toString);
const encoder = new TextEncoder();
const encode = encoder.encode.bind(encoder);
const fromBase64 = Uint8Array.fromBase64.bind(Uint8Array);

const DEPTH = 100; // of JSON; the host's parser has a limit too
const MOST_FOUND = 100; // by one search
const MAX_TOKENS = 1000;
const INSPECT = Symbol.for("Deno.customInspect");
const NAMES = freeze({ [Symbol.toStringTag]: "tools" }); // what `tools` and `tools.server` are
const NOT_TOOLS = new Set(["then", "toJSON"]);
const UNKNOWN = new Set(["unknown_tool", "tool_not_granted"]);
const ADVICE = new Map([
  ["bigint", "Number or String"],
  ["Map", "Object.fromEntries"],
  ["Promise", "await"],
  ["Set", "Array.from"],
  ["Uint8Array", "toBase64"],
]);

// -- Arguments --------------------------------------------------------------------------------------------------------

/** A copy of `original` in plain JSON types. Throws a Failure that names the path, from `name` on, to what is no JSON. */
function plain(original, name) {
  const [path, around] = [[], []];
  const refuse = (why) => {
    throw new Failure(`${name}${path.map(memberOf).join("")} ${why}`);
  };
  const text = (value) => value.isWellFormed() ? value : refuse("has half a surrogate pair, which is no JSON");
  const member = (key, value) => {
    path.push(key);
    const copied = copy(value);
    path.pop();
    return copied;
  };
  const copy = (unasked) => {
    const value = typeof unasked?.toJSON === "function" ? unasked.toJSON() : unasked;
    if (value === null || typeof value === "boolean") return value;
    if (typeof value === "string") return text(value);
    if (typeof value === "number" && isFinite(value)) return value;
    if (!isArray(value) && classOf(value) !== "[object Object]") refuse(`is ${describe(value)}, which is no JSON`);
    if (around.includes(value)) refuse("contains itself");
    if (around.length === DEPTH) refuse("is nested too deep");
    around.push(value);
    const copied = setPrototypeOf(isArray(value) ? [] : {}, null); // so that no `toJSON` is asked again
    for (let at = 0; isArray(value) && at < value.length; at++) copied[at] = member(at, value[at]);
    for (const [key, one] of isArray(value) ? [] : entries(value)) {
      if (one !== undefined) copied[text(key)] = member(key, one);
    }
    around.pop();
    return copied;
  };
  return copy(original);
}

/** In words, with what to do about it. */
function describe(value) {
  if (value === undefined || typeof value === "number") return `${value}`;
  const kind = typeof value === "object" ? classOf(value).slice(8, -1) : typeof value;
  return `a ${kind}${ADVICE.has(kind) ? ` (use ${ADVICE.get(kind)})` : ""}`;
}

/** How a member of this name is reached. */
function memberOf(name) {
  if (typeof name === "number") return `[${name}]`;
  return /^[A-Za-z_$][\w$]*$/.test(name) ? `.${name}` : `[${stringify(name)}]`;
}

// -- Results ----------------------------------------------------------------------------------------------------------

/** One content block of a result: text, or a handle of an image, a sound or a resource. */
class Block {
  #base64;
  #bytes = null;

  constructor({ type, data, resource, ...rest }) {
    const { uri = null, name = null, mimeType = null, text = null } = { ...rest, ...resource };
    this.type = type;
    this.mimeType = mimeType;
    this.uri = uri;
    this.name = name;
    this.text = text;
    this.#base64 = data ?? resource?.blob ?? null;
    freeze(this);
  }

  /** How many bytes it holds; null for a link. */
  get size() {
    if (this.#base64 === null) return this.text === null ? null : encode(this.text).length;
    return Math.floor(this.#base64.replace(/[=\s]/g, "").length * 3 / 4);
  }

  /** What it holds, a Uint8Array; null for a link. */
  get data() {
    if (this.#base64 === null) return this.text === null ? null : encode(this.text);
    try {
      return this.#bytes ??= fromBase64(this.#base64);
    } catch {
      throw new TypeError(`the ${this.type} holds no valid base64`);
    }
  }

  /** Write what it holds to a file. */
  async save(path) {
    const { data } = this;
    if (data === null) throw new TypeError(`a link to ${this.uri} holds nothing`);
    await writeFile(path, data);
  }

  toJSON() {
    const { type, mimeType, uri, name, text, size } = this;
    return { type, mimeType, uri, name, text, size };
  }

  [INSPECT]() {
    if (this.type === "text") return `[text ${inspect(this.text)}]`;
    const size = this.size === null ? "" : `${this.size} bytes`;
    return `[${[this.type, this.mimeType, this.uri, size].filter((part) => part).join(" ")}]`;
  }
}

/** All that a call has returned. */
class ToolResult {
  /** `kind` is what `value` is: `structured`, `json`, `text`, or `blocks` where there is no single value. */
  constructor({ kind, value, blocks }) {
    this.kind = kind;
    this.value = value;
    this.blocks = blocks.map((block) => new Block(block));
  }

  /** The texts of all blocks that have one, a line break between them. */
  get text() {
    return this.blocks.map(({ text }) => text).filter((text) => text !== null).join("\n");
  }
}

// -- What a program has -----------------------------------------------------------------------------------------------

/** The program's globals, by name. `dial` opens a socket to the host. */
function surface(dial) {
  const request = requester(dial);
  const call = (about, server, tool, value) => {
    const parameters = value === undefined ? {} : plain(value, `${about}: arguments`);
    if (classOf(parameters) !== "[object Object]") {
      throw new Failure(`${about}: takes one object of arguments, such as { title: "x" }`);
    }
    return request(about, { op: "call", server, tool, arguments: parameters });
  };
  const discovery = discoveryOf(request);
  const callMCPTool = entry("callMCPTool", async (name, input) => {
    const { kind, value, blocks } = await call(`${name}`, "", `${name}`, input);
    if (blocks[0]?.type === "text") return blocks[0].text;
    return { content: blocks, ...(kind === "structured" && { structuredContent: value }) };
  });
  return {
    tools: toolsOf(call),
    llm: modelOf(request),
    ...skillsOf(request),
    ToolError,
    SkillError,
    ToolResult,
    callMCPTool,
    call_mcp_tool: callMCPTool,
    ...discovery,
    discover_mcp_tools: discovery.discoverMCPTools,
    get_tool_schema: discovery.getToolSchema,
    search_tools: discovery.searchTools,
  };
}

/** An object, shown as `text`, whose members `member` makes from their names: no name costs a round trip. */
function named(text, member) {
  const descriptor = { value: () => text };
  const target = freeze(create(NAMES, { [INSPECT]: descriptor, [Symbol.toPrimitive]: descriptor }));
  return new Proxy(target, {
    get: (_, name) =>
      typeof name === "symbol" ? reflectGet(target, name) : NOT_TOOLS.has(name) ? undefined : member(name),
  });
}

function toolsOf(call) {
  return named("[tools: `await listTools()` names the servers]", (server) => {
    const list = `await listTools(${stringify(server)})`;
    return named(`[tools${memberOf(server)}: \`${list}\` names its tools]`, (tool) => {
      const about = `${server}/${tool}`;
      const one = entry(tool, async (...values) => {
        const result = await call(about, server, tool, only(about, values));
        return result.kind === "blocks" ? new ToolResult(result) : result.value;
      });
      const blocks = entry("blocks", async (...values) =>
        new ToolResult(await call(about, server, tool, only(about, values)))
      );
      return defineProperties(one, {
        blocks: { value: blocks },
        [INSPECT]: { value: () => `[tool ${about}]` },
      });
    });
  });
}

function skillsOf(request) {
  const ask = async (about, fields) => {
    try {
      return await request(about, fields);
    } catch (error) {
      throw error instanceof Failure ? new Failure(error.message, error.fields, SkillError) : error;
    }
  };
  const skills = named("[skills: `await listSkills()` names them]", (name) => {
    if (name === "default") return skills; // import skills from "skills"
    if (name === "SkillError") return SkillError;
    const about = `skills${memberOf(name)}`;
    const one = entry(name, async (...values) => {
      const value = only(about, values);
      const parameters = value === undefined ? {} : plain(value, `${about}: arguments`);
      if (classOf(parameters) !== "[object Object]") {
        throw new Failure(`${about}: takes one object of arguments, such as { month: 11 }`);
      }
      return (await ask(name, { op: "run_skill", skill: name, arguments: parameters })).value;
    });
    return defineProperties(one, { [INSPECT]: { value: () => `[skill ${name}]` } });
  });
  const listSkills = entry("listSkills", async (name) => {
    if (name === undefined) return (await ask("listSkills", { op: "skills" })).names;
    const answer = await ask(`${name}`, { op: "describe_skill", skill: `${name}` });
    const { description, state, origin, input_schema: parameters, typescript: signature } = answer;
    return { name: answer.name, description, state, origin, parameters, signature };
  });
  return { skills, listSkills };
}

/** The only argument. */
function only(about, values) {
  if (values.length > 1) throw new Failure(`${about}: takes one object of arguments, and there are ${values.length}`);
  return values[0];
}

/** What finds tools. A tool is `{ name, call, description, signature?, parameters?, outputSchema? }`. */
function discoveryOf(request) {
  const search = async (about, query, detail, limit) => {
    const fields = plain({ query, detail, limit }, `${about}: arguments`);
    const { tools, total, missing } = await request(about, { op: "search", ...fields });
    if (limit === MOST_FOUND && total > limit) warn(`${about}: these are ${limit} of ${total} tools; name other words`);
    if (missing.length) {
      warn(`${about}: not searched: ${missing.map(({ server, reason }) => `${server} (${reason})`).join(", ")}`);
    }
    return tools.map(schemaOf);
  };
  return {
    listTools: entry("listTools", async (server) => {
      const fields = plain({ server }, "listTools: arguments");
      return (await request("listTools", { op: "tree", ...fields })).servers;
    }),
    searchTools: entry("searchTools", (query, options = 10) => {
      if (typeof options === "number") return search("searchTools", query, "full", options);
      const { limit = 10, detail = "signatures" } = options;
      return search("searchTools", query, detail, limit);
    }),
    discoverMCPTools: entry("discoverMCPTools", ({ search: terms = [] } = {}) =>
      search("discoverMCPTools", [terms].flat().join(" "), "full", MOST_FOUND)
    ),
    getToolSchema: entry("getToolSchema", async (name) => {
      try {
        return schemaOf(await request("getToolSchema", { op: "describe", server: "", tool: `${name}` }));
      } catch (error) {
        if (UNKNOWN.has(error.fields?.code)) return null;
        throw error;
      }
    }),
  };
}

function schemaOf({ server, name, exposed_server, exposed, description, ...rest }) {
  const { typescript: signature, input_schema: parameters, output_schema: outputSchema } = rest;
  const schema = { name: `mcp__${server}__${name}`, call: `tools.${exposed_server}.${exposed}`, description };
  if (signature) schema.signature = signature;
  if (parameters) schema.parameters = parameters;
  if (outputSchema) schema.outputSchema = outputSchema;
  return schema;
}

function modelOf(request) {
  const sample = (name, messages, { systemPrompt = "", maxTokens = MAX_TOKENS, model = "", stream = false } = {}) => {
    const answer = entry(name, async () => {
      const fields = plain({ messages, system: systemPrompt, max_tokens: maxTokens, model }, `llm.${name}: arguments`);
      return (await request(`llm.${name}`, { op: "sample", ...fields })).text;
    });
    return stream ? pieces(answer) : answer();
  };
  return freeze({
    ask: (prompt, options) => sample("ask", [{ role: "user", content: prompt }], options),
    think: (chat, options) => isArray(chat) ? sample("think", chat, options) : sample("think", chat.messages, chat),
  });
}

/** The host sends an answer whole: it is one piece. */
async function* pieces(answer) {
  yield await answer();
}

/** Define the program's globals. `hub` is the host's address, `address:port`. */
export function install(hub) {
  const [hostname, port] = hub.split(":");
  for (const [name, value] of entries(surface(() => connect({ hostname, port: Number(port) })))) {
    defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }
}

// -- Wait -------------------------------------------------------------------------------------------------------------

/** Warm up the usual calls of programs, without a connection. Nothing may remain. */
export async function warmUp() {
  const block = { type: "text", text: "x" };
  const answers = [
    { value: { kind: "structured", value: {}, blocks: [block] } },
    { value: { kind: "text", value: "x", blocks: [block] } },
    { value: { tools: [{ server: "a", name: "b", description: "", input_schema: {} }], missing: [] } },
    { error: { code: "x", message: "x", hint: "x" } },
  ];
  const { tools, callMCPTool, searchTools } = surface(async () => rehearsal(answers));
  await tools.a.b({ c: [1, "x", { d: null }] });
  await callMCPTool("mcp__a__b", {});
  await searchTools("x");
  try {
    await tools.a.b();
  } catch { /* as answered */ }
}
