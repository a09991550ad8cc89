import assert from "node:assert/strict";
import { test } from "node:test";

import { unique } from "../lib/unique.js";

test("what is taken gets a number", () => {
  assert.equal(unique("Notes", new Set(["notes", "notes-2"])), "notes-3");
});
