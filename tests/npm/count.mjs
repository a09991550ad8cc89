// Counts tokens with the o200k vocabulary: a JSON array of texts on standard input, an array of numbers on standard output.
import { encode } from "gpt-tokenizer/encoding/o200k_base";

let input = "";
for await (const chunk of process.stdin) input += chunk;
console.log(JSON.stringify(JSON.parse(input).map((text) => encode(text).length)));
