// expect: value "blocked"
// proves: A4
// tries: speak the server's own protocol on stdout, by console and by bytes
console.log('{"jsonrpc": "2.0", "id": 1, "result": {"content": []}}');
Deno.stdout.writeSync(new TextEncoder().encode("Content-Length: 2\r\n\r\n{}"));
"blocked";
