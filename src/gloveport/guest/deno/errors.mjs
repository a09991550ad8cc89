/**
 * Errors of calls: ToolError or SkillError, or TypeError for a wrong call, with the program's own lines as the stack.
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

/** A skill did not run, or has failed: `skill` is its name, `code` the host's reason, such as `skill_error`. */
export class SkillError extends ToolError {
  get skill() {
    return this.tool;
  }
}
defineProperty(SkillError.prototype, "name", { value: "SkillError", writable: true, configurable: true });

/** Thrown by the modules here, and turned into an error of the program's on the way out. */
export class Failure {
  /** `fields`: those of ToolError; none for a wrong call. `type`: the class of the program's error. */
  constructor(message, fields = null, type = ToolError) {
    this.message = message;
    this.fields = fields;
    this.type = type;
  }

  /** The error, as if it had been made at the program's call. `site` has the stack of the call. */
  at(site) {
    const error = this.fields ? new this.type(this.message, this.fields) : new TypeError(this.message);
    const frames = `${site.stack}`.split("\n").filter((line) => line.startsWith("    at ") && !line.includes(OWN));
    void error.stack; // else Deno's module loader would not take it for an error of the program's
    error.stack = [`${error.name}: ${this.message}`, ...frames].join("\n");
    return error;
  }
}

/** A function for the program that does `work`, and fails with the stack of its call. */
export function entry(name, work) {
  const call = async (...values) => {
    const site = {};
    captureStackTrace(site, call); // now: a caller that does not wait has no frame left when the answer comes
    try {
      return await work(...values);
    } catch (error) {
      throw error instanceof Failure ? error.at(site) : error;
    }
  };
  return defineProperty(call, "name", { value: name });
}
