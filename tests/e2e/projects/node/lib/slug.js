// Titles as parts of an address.

const LONGEST = 40;

export function slug(title) {
  const plain = title.normalize("NFKD").replace(/[\u0300-\u036f]/g, "").toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "-").slice(0, LONGEST);
}
