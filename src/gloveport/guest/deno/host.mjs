/**
 * Requests to the host: any number at a time over one connection, which the first one opens.
 *
 * A frame is four bytes of length, most significant first, and JSON (`gloveport/rpc.py`); answers come in any order. The
 * connection keeps the process alive while an answer is due, and not longer.
 */
import { Failure } from "./errors.mjs";

const { parse, stringify } = JSON;
const { setPrototypeOf } = Object;
const { Map, Promise, Uint8Array } = globalThis;
const [encoder, decoder] = [new TextEncoder(), new TextDecoder()];
const encode = encoder.encode.bind(encoder);
const decode = decoder.decode.bind(decoder);

const HEAD_BYTES = 4;
const FRAME_BYTES = 8 << 20; // the most that the host reads
const CHUNK_BYTES = 64 << 10;

/**
 * A function that sends `{ op, ...fields }` and returns the answer's value, or throws a Failure that begins with `about`.
 * `dial` opens a socket.
 */
export function requester(dial) {
  let [opening, last] = [null, 0];
  const open = async () => {
    try {
      return new Connection(await dial(), () => opening = null);
    } catch (error) {
      opening = null;
      const nobody = unavailable(`${error}`, "it was not called");
      return { request: () => nobody };
    }
  };
  return async (about, fields) => {
    const id = ++last;
    const frame = frameOf({ id, ...fields }, about);
    const { value, error } = await (await (opening ??= open())).request(id, frame);
    if (!error) return value;
    const { code, message: text, hint, detail } = error;
    throw new Failure(`${about}: ${text}${hint ? `\nhint: ${hint}` : ""}`, { tool: about, code, text, hint, detail });
  };
}

function frameOf(request, about) {
  const body = encode(stringify(setPrototypeOf(request, null)));
  if (body.length > FRAME_BYTES) {
    const message = `${about}: its arguments have ${body.length} bytes, and ${FRAME_BYTES} is the most`;
    throw new Failure(message, { tool: about, code: "too_large" });
  }
  const frame = new Uint8Array(HEAD_BYTES + body.length);
  for (let at = 0; at < HEAD_BYTES; at++) frame[at] = body.length >>> 8 * (HEAD_BYTES - 1 - at);
  frame.set(body, HEAD_BYTES);
  return frame;
}

/** One connection to the host. */
class Connection {
  #socket;
  #ended; // called once, when nothing more comes
  #waiting = new Map(); // id → resolve of the answer's promise
  #outbox = [];
  #sending = false;
  #lost = null; // the answer to requests after the end of the connection

  constructor(socket, ended) {
    this.#socket = socket;
    this.#ended = ended;
    socket.setNoDelay(true);
    socket.unref();
    this.#receive();
  }

  /** The answer to a frame, `{ value }` or `{ error }`. */
  request(id, frame) {
    if (this.#lost) return this.#lost;
    if (!this.#waiting.size) this.#socket.ref();
    this.#outbox.push(frame);
    if (!this.#sending) this.#send();
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  async #send() {
    this.#sending = true;
    try {
      while (this.#outbox.length) {
        const data = joined(this.#outbox.splice(0));
        for (let sent = 0; sent < data.length;) sent += await this.#socket.write(data.subarray(sent));
      }
    } catch { /* what has ended is told by who reads */ }
    this.#sending = false;
  }

  async #receive() {
    try {
      let [buffer, start, end] = [new Uint8Array(CHUNK_BYTES), 0, 0];
      for (let count; (count = await this.#socket.read(buffer.subarray(end))) !== null;) {
        end += count;
        let size = frameSize(buffer, start, end);
        for (; size <= end - start; size = frameSize(buffer, start, end)) {
          this.#take(parse(decode(buffer.subarray(start + HEAD_BYTES, start + size))));
          start += size;
        }
        if (start === end && buffer.length === CHUNK_BYTES) start = end = 0;
        else if (start === end || start + size > buffer.length) {
          const next = new Uint8Array(size > CHUNK_BYTES ? size : CHUNK_BYTES);
          next.set(buffer.subarray(start, end));
          [buffer, start, end] = [next, 0, end - start];
        }
      }
      this.#close("the connection has ended");
    } catch (error) {
      this.#close(`${error}`);
    }
  }

  #take(answer) {
    const resolve = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (!this.#waiting.size) this.#socket.unref();
    resolve?.(answer);
  }

  #close(reason) {
    this.#lost = unavailable(reason, "whether it was done is not known");
    this.#ended();
    this.#socket.close();
    for (const resolve of this.#waiting.values()) resolve(this.#lost);
    this.#waiting.clear();
  }
}

/** Size of the frame that begins at `start`; larger than the received bytes until its head has come. */
function frameSize(buffer, start, end) {
  if (end - start < HEAD_BYTES) return CHUNK_BYTES;
  return HEAD_BYTES + buffer[start] * 2 ** 24 + (buffer[start + 1] << 16 | buffer[start + 2] << 8 | buffer[start + 3]);
}

/** The answer for a request that gets none. */
function unavailable(reason, hint) {
  return { error: { code: "unavailable", message: `the host does not answer: ${reason}`, hint } };
}

function joined(frames) {
  if (frames.length === 1) return frames[0];
  const data = new Uint8Array(frames.reduce((size, frame) => size + frame.length, 0));
  let at = 0;
  for (const frame of frames) data.set(frame, at), at += frame.length;
  return data;
}

/** A socket that gives these answers, one for each frame. */
export function rehearsal(answers) {
  let [sent, wake] = [null, null];
  return {
    setNoDelay() {},
    ref() {},
    unref() {},
    close() {},
    async write(data) {
      sent = frameOf({ id: parse(decode(data.subarray(HEAD_BYTES))).id, ...answers.shift() }, "");
      wake();
      return data.length;
    },
    async read(buffer) {
      if (!answers.length && !sent) return null;
      await new Promise((resolve) => wake = resolve);
      buffer.set(sent);
      const { length } = sent;
      sent = null;
      return length;
    },
  };
}
