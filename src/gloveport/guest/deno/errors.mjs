/**
 * How a call fails: as ToolError or SkillError, or as TypeError where it was called wrongly, with the program's own lines as its stack.
 */
const { Error, TypeError } = globalThis;
const { captureStackTrace } = Error;
const { defineProperty } = Object;

const OWN = new URL(".", import.meta.url).href;

/** A call was refused, or has failed. */
export class ToolError extends Error {
  /**
   * `tool`: `server/tool`, or the function that was called. `code`: `tool_error` when the tool says itself that it
   * failed, `unavailable`, `too_large`, or the host's reason, such as `unknown_tool`. `text`: what it or the host says.
   * `hint`: what to do. `detail`: more, where there is more.
   */
  constructor(message, { tool = "", code = "", text = message, hint = "", detail = null } = {}) {
    super(message);
    for (const [name, value] of [["tool", tool], ["code", code], ["text", text], ["hint", hint], ["detail", detail]]) {
      defineProperty(this, name, { value, writable: true, configurable: true }); // not shown again behind the message
    }
  }

  /** What the tool takes, in words, where the host says that. */
  get expected() {
    return this.code === "tool_error" ? this.hint : this.code === "invalid_arguments" ? this.text : "";
  }
}
defineProperty(ToolError.prototype, "name", { value: "ToolError", writable: true, configurable: true });

/** A skill did not run, or has failed: `skill` is its name, `code` the host's reason, or `skill_error` and the like. */
export class SkillError extends ToolError {
  get skill() {
    return this.tool;
  }
}
defineProperty(SkillError.prototype, "name", { value: "SkillError", writable: true, configurable: true });

/** What is thrown in here, and becomes an error of the program's on the way out. */
export class Failure {
  /** `fields`: those of ToolError; none where the program has called it wrongly. `type`: what it becomes then. */
  constructor(message, fields = null, type = ToolError) {
    this.message = message;
    this.fields = fields;
    this.type = type;
  }

  /** The error, as if it had been made where the program called. `site` has the stack of that. */
  at(site) {
    const error = this.fields ? new this.type(this.message, this.fields) : new TypeError(this.message);
    const frames = `${site.stack}`.split("\n").filter((line) => line.startsWith("    at ") && !line.includes(OWN));
    void error.stack; // an error whose own stack Deno has never seen, its module loader takes for none of a program
    error.stack = [`${error.name}: ${this.message}`, ...frames].join("\n");
    return error;
  }
}

/** A function of the program's that does `work`, and fails where it was called. */
export function entry(name, work) {
  const call = async (...values) => {
    const site = {};
    captureStackTrace(site, call); // now: who has gone on without waiting has no frame left when the answer comes
    try {
      return await work(...values);
    } catch (error) {
      throw error instanceof Failure ? error.at(site) : error;
    }
  };
  return defineProperty(call, "name", { value: name });
}
