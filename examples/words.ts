type Count = Record<string, number>;

const text: string = "the agent writes, the sandbox runs, the owner sleeps";
const count: Count = {};
for (const word of text.match(/\w+/g) ?? []) count[word] = (count[word] ?? 0) + 1;

console.log(`${Object.keys(count).length} different words`);
await new Promise<void>((done) => setTimeout(done, 5)); // await works at the top level
Object.fromEntries(Object.entries(count).sort(([, a], [, b]) => b - a).slice(0, 3));
