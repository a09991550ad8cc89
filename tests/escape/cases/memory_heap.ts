// expect: killed memory_bytes
// without-cgroups: killed memory_bytes or error exit or error signal
// proves: E4
// limits: memory_bytes=128MiB wall_seconds=60
// tries: fill V8's heap
const kept: unknown[] = [];
for (;;) kept.push(new Array(100_000).fill(kept.length));
