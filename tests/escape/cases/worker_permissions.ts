// expect: error exit or error Error or error TypeError
// proves: E9
// tries: give a worker all permissions
// deno-lint-ignore no-explicit-any
const options: any = { type: "module", deno: { permissions: "inherit" } };
options.deno.permissions = { read: true, run: true, net: true, env: true, ffi: true };
const worker = new Worker("data:text/javascript,postMessage(Deno.readTextFileSync('/etc/passwd'))", options);
await new Promise((yes) => worker.onmessage = (event) => { console.log("ESCAPED", event.data); yes(1); });
