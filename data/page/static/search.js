// Searches the full text of all trials. The texts are unpacked at the first search, then kept as one string for each chunk.

class TextIndex {
  constructor(trials) {
    this.trials = trials;
    this.chunks = [];
    this.prompts = null;
    this.loading = null;
    this.latest = [];
    this.count = Math.ceil(trials.count / trials.chunk);
  }

  get isReady() {
    return this.prompts !== null && this.chunks.length === this.count;
  }

  // Unpacks everything once; `progressed` is called after each chunk, so that first results can be shown.
  load(progressed) {
    this.loading ||= (async () => {
      const { tasks, variants } = await unpack("data-prompts");
      const found = Object.entries(variants).map(([digest, [prompt]]) => [digest, prompt]);
      this.prompts = new Map([...Object.entries(tasks), ...found].map(([digest, prompt]) => [digest, { text: prompt || "", lower: (prompt || "").toLowerCase() }]));
      for (let number = 0; number < this.count; number++) {
        this.chunks.push(chunkText(await inflate(document.getElementById(`data-chunk-${number}`).textContent)));
        if (number % 8 === 7) {
          progressed();
          await new Promise((done) => setTimeout(done)); // keys and clicks come first
        }
      }
      progressed();
    })();
    return this.loading;
  }

  // Returns for each trial whether a term is in its prompt or in what happened. A term that is typed on is looked for only
  // where its beginning was found.
  search(term) {
    const earlier = this.isReady ? this.latest.find((each) => term.startsWith(each.term)) : null;
    if (earlier && earlier.term === term) return earlier.found;
    const found = earlier ? this.searchAmong(earlier.found, term) : this.searchAll(term);
    if (this.isReady) this.latest = [{ term, found }, ...this.latest.slice(0, 7)];
    return found;
  }

  searchAmong(before, term) {
    return before.map((isFound, trial) => {
      if (!isFound) return 0;
      const { lower, starts } = this.chunks[Math.floor(trial / this.trials.chunk)];
      const place = trial % this.trials.chunk;
      return Number(lower.slice(starts[place], starts[place + 1]).includes(term) || this.prompts.get(this.promptOf(trial))?.lower.includes(term) || false);
    });
  }

  searchAll(term) {
    const found = new Uint8Array(this.trials.count);
    this.chunks.forEach(({ lower, starts }, number) => {
      let place = 0;
      for (let at = lower.indexOf(term); at >= 0; at = lower.indexOf(term, starts[place])) {
        while (starts[place] <= at) place++;
        found[number * this.trials.chunk + place - 1] = 1;
        if (place === starts.length) break;
      }
    });
    const prompts = new Set([...(this.prompts || [])].filter(([, { lower }]) => lower.includes(term)).map(([digest]) => digest));
    if (prompts.size) for (let trial = 0; trial < found.length; trial++) if (prompts.has(this.promptOf(trial))) found[trial] = 1;
    return found;
  }

  promptOf(trial) {
    const at = (name) => valueAt(this.trials.columns[name], trial);
    return at("variant_id") === null || /^full/.test(at("condition")) ? at("task") : at("variant");
  }

  // Returns the words around the first hit of a term in a trial: [before, hit, after].
  around(trial, term) {
    const chunk = this.chunks[Math.floor(trial / this.trials.chunk)];
    const place = trial % this.trials.chunk;
    const inside = chunk && chunk.lower.indexOf(term, chunk.starts[place]);
    const isInside = chunk && inside >= 0 && inside < (chunk.starts[place + 1] ?? chunk.lower.length);
    const { text, lower } = isInside ? chunk : this.prompts?.get(this.promptOf(trial)) || { text: "", lower: "" };
    const at = isInside ? inside : lower.indexOf(term);
    if (at < 0) return null;
    const shown = text.length === lower.length ? text : lower; // some capitals become two letters
    const first = Math.max(isInside ? chunk.starts[place] : 0, at - 28);
    return [shown.slice(first, at), shown.slice(at, at + term.length), shown.slice(at + term.length, at + term.length + 90)].map((part) => part.replace(/\s+/g, " "));
  }
}

function chunkText(timelines) {
  const starts = [];
  let text = "";
  for (const parts of timelines) {
    starts.push(text.length);
    const texts = [];
    for (const attempt of parts.attempts || []) texts.push(attempt[7]);
    for (const call of parts.calls || []) texts.push(call[2], call[7]);
    for (const action of parts.actions || []) texts.push(action[2], plain(action[3]), action[5]);
    for (const question of parts.questions || []) texts.push(question[1], question[2], question[3]);
    for (const injection of parts.injections || []) texts.push(injection[4]);
    for (const checkpoint of parts.checkpoints || []) texts.push(checkpoint[1], checkpoint[4]);
    for (const note of parts.notes || []) texts.push(...note.slice(1));
    for (const answer of parts.answers || []) texts.push(answer[0]);
    text += `${texts.filter(Boolean).join("\n")}\n`;
  }
  const lower = text.toLowerCase();
  return { text, lower: lower.length === text.length ? lower : text.replace(/[^\0-\u{ffff}]|[^]/gu, (each) => each.toLowerCase().length === each.length ? each.toLowerCase() : each), starts };
}

// Arguments are JSON; line ends and quotes in them are found as they are read.
function plain(json) {
  return json && json.includes("\\") ? json.replaceAll("\\n", "\n").replaceAll('\\"', '"') : json;
}

// "two words" in quotes are one term; otherwise every word has to be found.
function searchTerms(text) {
  return [...text.toLowerCase().matchAll(/"([^"]+)"?|(\S+)/g)].map(([, phrase, word]) => phrase ?? word).filter((term) => term !== '"');
}
