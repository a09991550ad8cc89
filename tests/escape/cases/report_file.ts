// expect: value null or error exit or error TypeError or error Error
// proves: E2, E4
// tries: write the report itself, in a wrong shape and larger than it may be, and end before the runtime does
Deno.writeTextFileSync("/run/gloveport/report", JSON.stringify({ value: "ESCAPED".repeat(200_000), exit_code: 0, limits_hit: ["x"] }));
Deno.exit(0);
