import assert from "node:assert/strict";
import { test } from "node:test";

import { slug } from "../lib/slug.js";

test("accents are taken off", () => {
  assert.equal(slug("Crème brûlée"), "creme-brulee");
});

test("no dash is at an end", () => {
  assert.equal(slug("  What, again?! "), "what-again");
});
