// expect: fresh
// proves: E9
// runs: 3
// tries: guess what another program's random numbers are: an interpreter that waits has a generator already
({
  random: Math.random(),
  uuid: crypto.randomUUID(),
  bytes: [...crypto.getRandomValues(new Uint8Array(8))].join(),
  file: Deno.makeTempFileSync(),
})
