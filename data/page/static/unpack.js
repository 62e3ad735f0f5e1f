// The data of the page: compressed JSON in inert elements, unpacked when needed and then cached.

const unpacked = new Map();

function unpack(id) {
  if (!unpacked.has(id)) unpacked.set(id, inflate(document.getElementById(id).textContent));
  return unpacked.get(id);
}

async function inflate(base64) {
  const characters = atob(base64);
  const bytes = new Uint8Array(characters.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = characters.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// A column is a list of values, or { of, at }: the distinct values, and the index of each row's value among them.
function valueAt(column, row) {
  return Array.isArray(column) ? column[row] : column.of[column.at[row]];
}
