// expect: value null or error exit or error TypeError or error Error
// proves: E2, E4, P14
// tries: say that its own report, which has no shape, is the last, and go on
Deno.writeTextFileSync("/run/gloveport/report", '\n{"last": true, "value": "ESCAPED"}\n');
await new Promise((done) => setTimeout(done, 1000));
