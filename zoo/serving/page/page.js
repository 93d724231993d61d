"use strict";
// Translates what the user types, explains single words, and translates documents. Texts are never written as HTML.
const DELAY = 300; // milliseconds after the last key before a request is sent
const MAX_PARTS = 50; // lines are sent as so many texts at most, so that the first ones appear early
const ALTERNATIVES = 8;
const AUTO = "auto";
const byId = (id) => document.getElementById(id);
const state = { languages: [], parts: [], chosen: null, timer: 0, abort: null, wordAbort: null, targetChosen: false };

function element(name, attributes = {}, ...inside) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...inside);
  return node;
}

function showError(error) {
  if (error.name === "AbortError") return;
  const lost = error instanceof TypeError;
  byId("error").textContent = lost ? "The server does not answer. Try again when it is running." : error.message;
  byId("result").classList.remove("waiting");
}

async function send(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (byId("key").value) headers.Authorization = `Bearer ${byId("key").value}`;
  const options = body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { signal };
  const response = await fetch(path, options);
  if (!response.ok) {
    const failure = await response.json().catch(() => ({}));
    throw new Error(failure.error || `The server answers with status ${response.status}.`);
  }
  return response;
}

const json = async (path, body, signal) => (await send(path, body, signal)).json();

// Yields the data of each server-sent event.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (pending + value).split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      yield { name: lines[0].slice("event: ".length), data: JSON.parse(lines[1].slice("data: ".length)) };
    }
  }
}

// Returns the text as at most MAX_PARTS parts of whole lines.
function splitText(text) {
  const lines = text.split("\n");
  const size = Math.ceil(lines.length / MAX_PARTS);
  return Array.from({ length: Math.ceil(lines.length / size) }, (_, i) => lines.slice(i * size, (i + 1) * size).join("\n"));
}

function chosenLanguages(part) {
  return { source: byId("source").value === AUTO ? part.source : byId("source").value, target: byId("target").value };
}

async function translate() {
  state.abort?.abort();
  closeWord();
  byId("error").textContent = "";
  const text = byId("text").value;
  if (!text.trim()) {
    state.parts = [];
    byId("facts").textContent = "";
    return draw();
  }
  state.abort = new AbortController();
  const { signal } = state.abort;
  const parts = splitText(text).map((part) => ({ text: part }));
  const asked = parts.filter((part) => part.text.trim());
  byId("result").classList.add("waiting");
  const started = performance.now();
  try {
    const body = { text: asked.map((part) => part.text), source: byId("source").value, target: byId("target").value };
    const response = await send("v1/translate", { ...body, stream: true }, signal);
    for await (const { name, data } of events(response)) {
      if (name === "error") throw new Error(data.error);
      if (name !== "translation") continue;
      Object.assign(asked[data.index], { translation: data.translations[0].text, source: data.source });
      Object.assign(asked[data.index], { model: data.model, revision: data.revision });
      state.parts = parts;
      draw();
    }
    if (avoidTarget(asked)) return translate();
    byId("result").classList.remove("waiting");
    showFacts(asked, (performance.now() - started) / 1000);
    byId("announced").textContent = `Translation: ${parts.map((part) => part.translation || "").join(" ").slice(0, 300)}`;
  } catch (error) {
    showError(error);
  }
}

// Selects another target if the detected language is the target and the user has not chosen one. Returns whether it did.
function avoidTarget(parts) {
  if (byId("source").value !== AUTO || state.targetChosen || parts.some((part) => part.model)) return false;
  const other = state.languages.find(({ code }) => code === parts[0].source)?.targets[0];
  if (!other) return false;
  byId("target").value = other;
  state.targetChosen = true;
  return true;
}

function showFacts(parts, seconds) {
  const name = byId("source").value === AUTO ? `Detected: ${languageName(parts[0].source)}. ` : "";
  const answered = parts.find((part) => part.model);
  const model = answered ? `${answered.model} ${answered.revision.slice(0, 8)}` : "Already in this language";
  const words = parts.map((part) => part.translation.split(/\s+/).filter(Boolean).length).reduce((sum, each) => sum + each);
  const speed = answered ? `, ${Math.round(words / seconds)} words/s` : "";
  byId("facts").textContent = `${name}${model}, ${seconds.toFixed(2)} s${speed}`;
}

// Draws the translation. The words of a single line are buttons.
function draw() {
  const rows = state.parts.map((part, number) => {
    const row = element("p", { class: "words" });
    const text = part.translation || "";
    if (part.text.includes("\n") || !part.model) row.append(text);
    else {
      part.words = [...text.matchAll(/[\p{L}\p{N}\p{M}'’-]+|[^\s\p{L}\p{N}]/gu)];
      let end = 0;
      part.words.forEach((match, word) => {
        const button = element("button", { type: "button", tabindex: "-1", "aria-pressed": "false" }, match[0]);
        button.addEventListener("click", () => openWord(part, word, button));
        row.append(text.slice(end, match.index), button);
        end = match.index + match[0].length;
      });
      row.append(text.slice(end));
    }
    row.dataset.part = number;
    return row;
  });
  byId("result").replaceChildren(...rows);
  byId("result").querySelector("button")?.setAttribute("tabindex", "0");
  byId("copy").disabled = !rows.length;
}

async function copy() {
  const text = state.parts.map((part) => part.translation || "").join("\n");
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    // Browsers have no clipboard object on plain HTTP, except for this machine.
    const copied = element("textarea", { class: "hidden", "aria-hidden": "true" });
    copied.value = text;
    document.body.append(copied);
    copied.select();
    document.execCommand("copy");
    copied.remove();
    byId("copy").focus();
  }
  byId("announced").textContent = "The translation is copied.";
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  byId("theme").value = name;
  localStorage.setItem("theme", name);
}

// Moves among the words with the arrow keys, so that the translation is one stop of the tabulator key.
function moveFocus(event) {
  const buttons = [...byId("result").querySelectorAll("button")];
  const place = buttons.indexOf(document.activeElement);
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (place < 0 || next === undefined || !buttons[next]) return;
  event.preventDefault();
  buttons[place].setAttribute("tabindex", "-1");
  buttons[next].setAttribute("tabindex", "0");
  buttons[next].focus();
}

function closeWord() {
  state.wordAbort?.abort();
  state.chosen = null;
  byId("word").hidden = true;
  for (const pressed of document.querySelectorAll("[aria-pressed=true]")) pressed.setAttribute("aria-pressed", "false");
}

async function openWord(part, word, button) {
  closeWord();
  button.setAttribute("aria-pressed", "true");
  state.chosen = { part, word };
  state.wordAbort = new AbortController();
  byId("word-title").textContent = `“${part.words[word][0]}”`;
  byId("alternatives").replaceChildren();
  byId("attention").textContent = "";
  byId("word").hidden = false;
  await Promise.all([showAlternatives(), showAttention()]).catch(showError);
}

async function showAlternatives() {
  const { part, word } = state.chosen;
  const prefix = part.translation.slice(0, part.words[word].index).trimEnd();
  const body = { text: part.text, ...chosenLanguages(part), prefix: prefix || null, n_best: ALTERNATIVES };
  const { results } = await json("v1/translate", body, state.wordAbort.signal);
  const texts = [...new Set(results[0].translations.map((each) => each.text))];
  const items = texts.filter((text) => text !== part.translation).map((text) => {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => {
      part.translation = text;
      closeWord();
      draw();
      byId("result").querySelector("button")?.focus();
    });
    return element("li", {}, button);
  });
  byId("alternatives").replaceChildren(...(items.length ? items : [element("li", {}, "There is no other translation.")]));
}

async function showAttention() {
  const { part, word } = state.chosen;
  const body = { text: part.text, translation: part.translation, ...chosenLanguages(part) };
  const given = { layer: byId("layer").value, head: byId("head").value };
  if (given.layer !== "") body.layer = Number(given.layer);
  if (given.head !== "") body.head = Number(given.head);
  const found = await json("v1/attention", body, state.wordAbort.signal);
  fillNumbers("layer", found.layers, found.layer, null);
  fillNumbers("head", found.heads, found.head, "mean");
  // A word of the page can be a part of a word of the model, such as a full stop.
  const position = part.words[word].index;
  const row = found.target_starts.findLastIndex((start) => start <= position);
  const weights = found.weights[row];
  const largest = Math.max(...weights);
  byId("attention").replaceChildren(
    ...found.source.flatMap((text, column) => {
      const shown = element("span", { title: `${Math.round(100 * weights[column])} %` }, text);
      shown.style.setProperty("--weight", weights[column] / largest);
      return [shown, " "];
    }),
  );
}

function fillNumbers(id, count, chosen, first) {
  const options = Array.from({ length: count }, (_, i) => element("option", { value: i }, `${i + 1}`));
  byId(id).replaceChildren(...(first ? [element("option", { value: "" }, first)] : []), ...options);
  byId(id).value = chosen ?? "";
}

const languageName = (code) => state.languages.find((each) => each.code === code)?.name || code;

function fillLanguages() {
  const source = byId("source").value || AUTO;
  const target = byId("target").value;
  const listed = state.languages.map(({ code, name }) => element("option", { value: code }, name));
  byId("source").replaceChildren(element("option", { value: AUTO }, "Detect language"), ...listed);
  byId("source").value = source;
  const all = state.languages.filter(({ code }) => source === AUTO || code === source).flatMap(({ targets }) => targets);
  const targets = [...new Set(all)].map((code) => element("option", { value: code }, languageName(code)));
  byId("target").replaceChildren(...targets);
  if (all.includes(target)) byId("target").value = target;
}

function swap() {
  const [source, target] = [byId("source").value, byId("target").value];
  const detected = state.parts.find((part) => part.source)?.source;
  const text = state.parts.map((part) => part.translation || "").join("\n");
  byId("source").value = target;
  fillLanguages();
  byId("target").value = source === AUTO ? detected || byId("target").value : source;
  if (text.trim()) byId("text").value = text;
  translate();
}

async function translateFile(file) {
  if (!file) return;
  const status = byId("file-status");
  status.textContent = `Translating ${file.name} …`;
  const form = new FormData();
  form.append("file", file);
  form.append("source", byId("source").value);
  form.append("target", byId("target").value);
  form.append("api_key", byId("key").value);
  try {
    const response = await fetch("translate_file", { method: "POST", body: form });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error);
    const link = element("a", { href: new URL(answer.translatedFileUrl).pathname.slice(1) }, "Download the translation");
    status.replaceChildren(`${file.name}: `, link, ", for ten minutes.");
  } catch (error) {
    status.textContent = "";
    showError(error);
  }
}

function showModels(models) {
  const rows = models.map((model) => {
    const pairs = model.directions.map(([source, target]) => `${languageName(source)} to ${languageName(target)}`);
    const scores = Object.entries(model.scores).map(([name, value]) => `${name} ${value.toFixed(1)}`);
    const cells = [model.name, pairs.join(", ") || model.task, scores.join(", "), model.licence || ""];
    return element("tr", {}, ...cells.map((text) => element("td", {}, text)));
  });
  byId("models").replaceChildren(...rows);
}

async function start() {
  byId("key").value = sessionStorage.getItem("key") || "";
  const [languages, settings, models] = await Promise.all(["languages", "frontend/settings", "v1/models"].map((path) => json(path)));
  state.languages = languages;
  byId("key-box").hidden = !settings.keyRequired;
  byId("documents").hidden = !settings.filesTranslation;
  byId("file").setAttribute("accept", settings.supportedFilesFormat.join(","));
  fillLanguages();
  showModels(models);
}

const later = () => {
  clearTimeout(state.timer);
  state.timer = setTimeout(translate, DELAY);
};
byId("text").addEventListener("input", later);
byId("source").addEventListener("change", () => (fillLanguages(), translate()));
byId("target").addEventListener("change", () => ((state.targetChosen = true), translate()));
byId("key").addEventListener("input", () => (sessionStorage.setItem("key", byId("key").value), later()));
byId("swap").addEventListener("click", swap);
byId("copy").addEventListener("click", () => copy().catch(showError));
byId("theme").addEventListener("change", () => setTheme(byId("theme").value));
byId("result").addEventListener("keydown", moveFocus);
for (const id of ["layer", "head"]) byId(id).addEventListener("change", () => showAttention().catch(showError));
document.addEventListener("keydown", (event) => event.key === "Escape" && closeWord());
byId("file").addEventListener("change", () => translateFile(byId("file").files[0]));
const area = byId("documents");
for (const name of ["dragover", "dragleave", "drop"]) {
  area.addEventListener(name, (event) => {
    event.preventDefault();
    area.classList.toggle("over", name === "dragover");
    if (name === "drop") translateFile(event.dataTransfer.files[0]);
  });
}
setTheme(localStorage.getItem("theme") || "");
start().catch(showError);
