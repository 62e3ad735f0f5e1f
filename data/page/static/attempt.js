// One attempt on a page of its own: asked of a daemon, again and again while it runs, or in the page that show --web writes.

const LIVE_AGAIN_MS = 2000;
const WRITING_AGAIN_MS = 300;

class Attempt {
  constructor(box) {
    this.box = box;
    this.walk = new Walk(box);
    this.shown = ""; // the JSON that is drawn
    this.isRunning = false;
    state.onChange((changed) => (changed.has("plain") || changed.has("view")) && this.draw(JSON.parse(this.shown)));
  }

  async follow() {
    const { from } = this.box.dataset;
    const text = from ? await fetch(from).then((reply) => reply.ok ? reply.text() : "").catch(() => "") : JSON.stringify(await unpack("data-attempt"));
    if (text && text !== this.shown) this.draw(JSON.parse(text));
    document.getElementById("live").textContent = this.isRunning ? "Running: new events appear here." : "Ended.";
    if (this.isRunning) setTimeout(() => this.follow(), LIVE_AGAIN_MS);
    if (from && !this.isWriting) this.write(from.replace(/data$/, "writing"));
    this.shown = text || this.shown;
    document.documentElement.dataset.ready = "true";
  }

  // Below the transcript: what streams in of replies that are not yet recorded.
  async write(address) {
    this.isWriting = this.isRunning;
    const texts = this.isRunning ? await fetch(address).then((reply) => reply.json()).catch(() => []) : [];
    document.getElementById("writing").textContent = texts.join("\n\n");
    if (this.isRunning) setTimeout(() => this.write(address), WRITING_AGAIN_MS);
  }

  // What is open stays open.
  draw({ columns, parts, prompts, texts, atif }) {
    const folds = () => [...this.box.querySelectorAll("[data-event] details")].map((fold) => {
      const around = fold.closest("[data-event]");
      return [`${around.dataset.event} ${[...around.querySelectorAll("details")].indexOf(fold)}`, fold];
    });
    const open = new Set(folds().filter(([, fold]) => fold.open).map(([name]) => name));
    this.isRunning = columns.outcome[0] === "running";
    const isFirst = !this.box.firstElementChild;
    const trial = new Trial({ at: (name) => columns[name][0], columns, parts, prompts, texts, atif }).draw();
    this.box.replaceChildren(trial);
    document.title = trial.getAttribute("aria-label");
    for (const [name, fold] of folds()) if (open.has(name)) fold.open = true;
    if (isFirst) this.walk.follow();
  }
}

const attempt = new Attempt(document.getElementById("timeline"));
attempt.follow();
addEventListener("noted", () => attempt.follow());
