// The data of the page: compressed JSON in inert elements, unpacked when it is asked for and then kept.
"use strict";

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

// A column is a list, or a list of different values with the place of each row's value in it.
function valueAt(column, row) {
  return Array.isArray(column) ? column[row] : column.of[column.at[row]];
}
