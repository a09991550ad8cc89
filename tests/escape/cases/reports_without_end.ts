// expect: timeout or killed stored_output_bytes or error exit or error signal or error Error
// proves: E4, P8, P14
// tries: keep the server busy with reports, many, long, and in single bytes, each of which it might parse
const file = Deno.openSync("/run/gloveport/report", { write: true });
const line = new TextEncoder().encode(JSON.stringify({ a: new Array(100_000).fill([]) }) + "\n");
for (let turn = 0; ; turn++) file.writeSync(turn % 2 ? line : line.subarray(0, 1));
