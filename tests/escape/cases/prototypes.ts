// expect: value null or value {} or value "blocked" or error TypeError or error Error or error exit
// proves: E2
// tries: make the runtime that wraps the program say what it wants, by replacing the language's own functions
// deno-lint-ignore-file no-explicit-any
(JSON as any).stringify = () => { throw new Error("mine"); };
(Object.prototype as any).toJSON = () => "ESCAPED";
(Promise.prototype as any).then = undefined;
(TextEncoder.prototype as any).encode = () => new Uint8Array(1 << 20);
(Array.prototype as any)[Symbol.iterator] = undefined;
"blocked";
