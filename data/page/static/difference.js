// The difference of two prompts, word by word.

const MOST_COMPARED = 4_000_000;

// Returns the parts of both texts in order: ["same" | "removed" | "added", text].
function difference(before, after) {
  const [a, b] = [before, after].map((text) => text.match(/\s*[^\s\w]+|\s*\w+|\s+$/g) || []);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const middle = aligned(a.slice(start, a.length - end), b.slice(start, b.length - end));
  const parts = [["same", a.slice(0, start).join("")], ...middle, ["same", a.slice(a.length - end).join("")]];
  const merged = [];
  for (const [kind, text] of parts) {
    if (!text) continue;
    if (merged.length && merged[merged.length - 1][0] === kind) merged[merged.length - 1][1] += text;
    else merged.push([kind, text]);
  }
  return merged;
}

// The longest common subsequence of words; of texts too long for it, everything counts as replaced.
function aligned(a, b) {
  if (a.length * b.length > MOST_COMPARED) return [["removed", a.join("")], ["added", b.join("")]];
  const width = b.length + 1;
  const longest = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const parts = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { parts.push(["same", a[i]]); i++; j++; }
    else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) parts.push(["removed", a[i++]]);
    else parts.push(["added", b[j++]]);
  }
  return parts;
}
