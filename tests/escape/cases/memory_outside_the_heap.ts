// expect: killed memory_bytes
// without-cgroups: killed memory_bytes or error RangeError or error exit or error signal
// proves: E4
// limits: memory_bytes=128MiB wall_seconds=60
// tries: fill memory outside V8's heap, which its own limit does not count
const kept: Uint8Array[] = [];
for (let n = 0; n < 4096; n++) kept.push(new Uint8Array(1 << 20).fill(1));
"ESCAPED: four gigabytes";
