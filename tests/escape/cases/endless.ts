// expect: timeout
// proves: E4
// limits: wall_seconds=1 cpu_seconds=30
// tries: loop without end in the only thread, with every promise and signal handler set to keep it alive
const never = new Promise(() => {});
never.finally(() => {});
for (;;);
