// expect: timeout or killed memory_bytes or error exit or error signal or error Error
// proves: E4
// limits: wall_seconds=2 processes=48 memory_bytes=256MiB
// tries: start workers without end
for (;;) {
  new Worker("data:text/javascript,for(;;);", { type: "module" });
  await new Promise((yes) => setTimeout(yes, 1));
}
