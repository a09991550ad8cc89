// A slug that nobody has yet.

import { slug } from "./slug.js";

export function unique(title, taken) {
  const wanted = slug(title);
  let found = wanted;
  for (let number = 2; taken.has(found); number += 1) found = `${wanted}-${number}`;
  return found;
}
