"use strict";
// Translates text and documents, and shows alternatives and attention for single words. Never inserts texts as HTML.
const DELAY = 300; // milliseconds after the last key before a request is sent
const MAX_PARTS = 50; // maximum number of texts per request, so that the first translations appear early
const N_BEST = 16; // many of these translations differ only after the chosen word
const MAX_ALTERNATIVES = 8;
const MAX_DIRECTIONS = 6; // for a model with more directions, the table shows languages and score ranges
const MAX_LANGUAGES = 8; // for a model with more languages, the table shows only their number
const DETECTED = 1000; // characters that are sent for language detection
const SAMPLE_RATE = 16000; // of recordings, in Hz
const DOWNLOAD_TIME = 600_000; // milliseconds for which the server keeps a translated document
const AUTO = "auto";
const WORD = /[\p{L}\p{N}\p{M}'’-]+|[^\s\p{L}\p{N}]/gu;
const storage = (name) => {
  try {
    return window[name];
  } catch {
    return { getItem: () => null, setItem: () => {} }; // the browser permits no storage
  }
};
const byId = (id) => document.getElementById(id);
// `target` is the target language that the user has chosen, and `source` is the detected source language.
const state = { languages: [], models: [], parts: [], chosen: null, target: null, source: null };

function element(name, attributes = {}, ...inside) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...inside);
  return node;
}

function showError(error, id = "error") {
  if (error.name === "AbortError") return;
  byId(id).textContent = describeError(error);
}

function describeError(error) {
  const lost = error instanceof TypeError;
  const message = lost ? "The server does not answer. Try again when it is running." : inPlainWords(error.message);
  return error.message.startsWith("`") ? message : message[0].toUpperCase() + message.slice(1); // not of a file name
}

// Omits what only programmers need from a message of the server: endpoints, commands, and codes after names.
const inPlainWords = (message) => message.split("; `")[0].replace(/ \(`[^`]*`\)/g, "").replaceAll("`", "");

const apiKey = () => byId("key").value.replace(/[^!-~]/g, ""); // a pasted key may contain spaces or invisible characters

async function send(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (apiKey()) headers.Authorization = `Bearer ${apiKey()}`;
  const options = body ? { method: "POST", headers, body: JSON.stringify(body), signal } : { signal };
  return checked(await fetch(path, options));
}

// Returns a response, or throws its error. Errors of a reverse proxy may not be JSON.
async function checked(response) {
  if (response.ok) return response;
  const { error } = await response.json().catch(() => ({}));
  throw new Error(error?.message || error || `The server returned status ${response.status}.`);
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

// Splits a text between lines into at most MAX_PARTS parts.
function splitText(text) {
  const lines = text.split("\n");
  const size = Math.ceil(lines.length / MAX_PARTS);
  return Array.from({ length: Math.ceil(lines.length / size) }, (_, i) => lines.slice(i * size, (i + 1) * size).join("\n"));
}

async function translate() {
  state.abort?.abort();
  state.abort = new AbortController();
  const { signal } = state.abort;
  closeWord();
  byId("error").textContent = "";
  const text = byId("text").value;
  byId("clear").hidden = !text;
  byId("count").textContent = text ? `${[...text].length} characters` : "";
  if (!text.trim()) return showDetected(null), showParts([]);
  byId("result").ariaBusy = "true";
  try {
    if (byId("source").value === AUTO) await detect(text, signal);
    const parts = splitText(text).map((part) => ({ text: part, segments: [] }));
    const asked = parts.filter((part) => part.text.trim());
    const languages = { source: byId("source").value, target: byId("target").value };
    const options = { model: byId("model").value || null, sentences: true, stream: true };
    const started = performance.now();
    const response = await send("v1/translate", { text: asked.map((part) => part.text), ...languages, ...options }, signal);
    for await (const { name, data } of events(response)) {
      const part = asked[data.index];
      if (name === "error" && data.status === 400) Object.assign(part, { segments: [part.text], failure: data.error });
      else if (name === "error") throw new Error(data.error);
      else if (name === "translation") {
        const { source, model, revision, translations, hint } = data;
        const segments = splitTranslation(translations[0]);
        Object.assign(part, { languages: { source, target: languages.target }, model, revision, segments, hint });
      } else continue;
      if (state.parts === parts) drawPart(part);
      else showParts(parts);
    }
    const left = asked.filter((part) => part.failure);
    if (left.length) showError(new Error(`${left.length === 1 ? "a paragraph is" : `${left.length} paragraphs are`} left untranslated: ${left[0].failure}`));
    showFacts(asked, (performance.now() - started) / 1000);
    byId("announced").textContent = `Translation: ${translation(parts).slice(0, 300)}`;
  } catch (error) {
    if (signal.aborted) return;
    showParts([]);
    showError(error);
  }
  byId("result").ariaBusy = "false";
}

// Detects the language of the text. If the user has not chosen a target language, selects one for it.
async function detect(text, signal) {
  const body = { q: [...text].slice(0, DETECTED).join(""), api_key: apiKey() || undefined };
  const codes = (await json("detect", body, signal)).map(({ language }) => language);
  const known = codes.map((code) => state.languages.find((each) => each.code.split("-")[0] === code)).find(Boolean);
  const targets = known?.targets || [];
  if (!state.target && targets.length && !targets.includes(byId("target").value)) byId("target").value = targets[0];
  showDetected(known?.code);
}

function showDetected(code) {
  state.source = code;
  byId("source").options[0].text = code ? `Auto: ${languageName(code)}` : "Detect language";
  fillModels();
}

// Returns the sentences of a translation, and the white space between them as strings.
function splitTranslation({ text, sentences, confidences, uncertain = [] }) {
  let end = 0;
  const segments = (sentences || []).flatMap(([source, target], place) => {
    const start = text.indexOf(target, end);
    const gap = text.slice(end, start);
    end = start + target.length;
    return [gap, { source, target, doubt: uncertain.includes(source) && describeDoubt(confidences[place]) }];
  });
  return [...segments, text.slice(end)];
}

// Returns the description of an uncertain sentence. The confidence is null if the model has no calibration.
function describeDoubt(confidence) {
  const known = confidence === null ? "" : `: its confidence is ${Math.round(100 * confidence)}%`;
  return `The model is not sure of this sentence${known}. Check it.`;
}

const translation = (parts) => parts.map(({ segments }) => segments.map((each) => each.target ?? each).join("")).join("\n");
const wordsOf = (text) => [...text.matchAll(WORD)];

function showFacts(parts, seconds) {
  const answered = parts.find((part) => part.model);
  const speed = Math.round(translation(parts).split(/\s+/).filter(Boolean).length / seconds);
  const facts = answered ? `${answered.model}, ${seconds.toFixed(2)} s, ${speed} words/s` : "Already in this language";
  byId("facts").textContent = facts;
  byId("facts").title = answered ? `Revision ${answered.revision}` : "";
  const hint = parts.find((part) => part.hint)?.hint || "";
  byId("hint").textContent = hint.replace(/: `[^`]*`$/, ".").replaceAll("`", ""); // without the command
}

function showParts(parts) {
  state.parts = parts;
  for (const part of parts) {
    part.row = element("p", { dir: "auto", lang: byId("target").value });
    drawPart(part);
  }
  byId("result").replaceChildren(...parts.map((part) => part.row));
  byId("result").ariaBusy = "false";
  byId("facts").textContent = byId("hint").textContent = "";
  byId("copy").hidden = !parts.length;
  takeFocus(byId("result").querySelector("button"));
}

// Draws a part of the translation. The words of its sentences are buttons.
function drawPart(part) {
  const nodes = part.segments.map((sentence) => {
    if (!sentence.source) return sentence.target ?? sentence;
    let end = 0;
    const inside = wordsOf(sentence.target).flatMap((match, word) => {
      const button = element("button", { type: "button", tabindex: "-1", "aria-pressed": "false" }, match[0]);
      button.addEventListener("click", () => openWord({ part, sentence, word, button }));
      const gap = sentence.target.slice(end, match.index);
      end = match.index + match[0].length;
      return [gap, button];
    });
    const { doubt } = sentence;
    const mark = doubt ? { class: "uncertain", role: "group", title: doubt, "aria-label": doubt } : {};
    sentence.node = element("span", mark, ...inside, sentence.target.slice(end));
    return sentence.node;
  });
  part.row.replaceChildren(...nodes);
  if (part.failure) Object.assign(part.row, { className: "left", lang: "", title: part.failure });
  if (!byId("result").querySelector("[tabindex='0']")) takeFocus(byId("result").querySelector("button"));
}

// Makes a word the only word that the Tab key reaches.
function takeFocus(button) {
  byId("result").querySelector("[tabindex='0']")?.setAttribute("tabindex", "-1");
  button?.setAttribute("tabindex", "0");
}

async function copy() {
  const text = translation(state.parts);
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
  byId("announced").textContent = "The translation was copied.";
  byId("copy").textContent = "Copied";
  setTimeout(() => (byId("copy").textContent = "Copy"), 1500);
}

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  byId("theme").value = name;
  storage("localStorage").setItem("theme", name);
}

// Moves between words with the arrow keys, so that the Tab key stops only once in the translation.
function moveFocus(event) {
  const buttons = [...byId("result").querySelectorAll("button")];
  const place = buttons.indexOf(document.activeElement);
  const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (place < 0 || next === undefined || !buttons[next]) return;
  event.preventDefault();
  takeFocus(buttons[next]);
  buttons[next].focus();
}

function closeWord() {
  state.wordAbort?.abort();
  state.chosen?.button.setAttribute("aria-pressed", "false");
  if (byId("word").contains(document.activeElement)) state.chosen.button.focus();
  state.chosen = null;
  byId("word").hidden = true;
}

async function openWord(chosen) {
  closeWord();
  state.chosen = chosen;
  chosen.button.setAttribute("aria-pressed", "true");
  takeFocus(chosen.button);
  state.wordAbort = new AbortController();
  byId("word-title").textContent = `“${chosen.button.textContent}”`;
  for (const id of ["alternatives", "attention", "word-error"]) byId(id).replaceChildren();
  byId("word").hidden = false;
  chosen.button.scrollIntoView({ block: "nearest" });
  await Promise.all([showAlternatives(), showAttention()]).catch((error) => showError(error, "word-error"));
}

// Shows translations of the sentence that have a different word in place of the chosen word.
async function showAlternatives() {
  const { part, sentence, word } = state.chosen;
  const own = wordsOf(sentence.target);
  const prefix = sentence.target.slice(0, own[word].index).trimEnd() || null;
  const body = { text: sentence.source, ...part.languages, model: part.model, prefix, n_best: N_BEST };
  const { results } = await json("v1/translate", body, state.wordAbort.signal);
  const found = new Map([[own[word][0]]]);
  for (const { text, confidence, uncertain } of results[0].translations) {
    const words = wordsOf(text);
    const begins = own.slice(0, word).every(([each], place) => each === words[place]?.[0]);
    if (begins && words[word] && !found.has(words[word][0])) found.set(words[word][0], [text, words[word].index, uncertain && describeDoubt(confidence)]);
  }
  const items = [...found].slice(1, MAX_ALTERNATIVES + 1).map(([other, [text, index, doubt]]) => {
    const rest = text.slice(index + other.length);
    const button = element("button", { type: "button", dir: "auto" }, prefix ? "… " : "", element("b", {}, other), rest);
    button.addEventListener("click", () => {
      Object.assign(sentence, { target: text, doubt });
      drawPart(part);
      state.chosen.button = sentence.node.children[word];
      takeFocus(state.chosen.button);
      closeWord();
      byId("announced").textContent = `Translation: ${text}`;
    });
    return element("li", { lang: part.languages.target }, button);
  });
  byId("alternatives").replaceChildren(...(items.length ? items : [element("li", {}, "The model has no other word for this place.")]));
}

async function showAttention() {
  const { part, sentence, word } = state.chosen;
  const body = { text: sentence.source, translation: sentence.target, ...part.languages, model: part.model };
  const given = { layer: byId("layer").value, head: byId("head").value };
  if (given.layer !== "") body.layer = Number(given.layer);
  if (given.head !== "") body.head = Number(given.head);
  const found = await json("v1/attention", body, state.wordAbort.signal);
  fillNumbers("layer", found.layers, found.layer, null);
  fillNumbers("head", found.heads, found.head, "mean");
  // A word on the page, such as a full stop, can be part of a word in the response. The server counts code points.
  const position = [...sentence.target.slice(0, wordsOf(sentence.target)[word].index)].length;
  const weights = found.weights[found.target_starts.findLastIndex((start) => start <= position)];
  const largest = Math.max(...weights);
  byId("attention").lang = part.languages.source;
  byId("attention").replaceChildren(
    ...found.source.flatMap((text, column) => {
      const shown = element("span", { title: `${Math.round(100 * weights[column])}%` }, text);
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

const englishNames = new Intl.DisplayNames(["en"], { type: "language" });

function languageName(code) {
  const known = state.languages.find((each) => each.code === code)?.name; // contains only source languages
  try {
    return known || englishNames.of(code);
  } catch {
    return code; // not a standard code
  }
}

// Fills the language lists. Selects the target language that the user has chosen, if possible.
function fillLanguages() {
  const source = byId("source").value || AUTO;
  const target = byId("target").value;
  const listed = state.languages.map(({ code, name }) => element("option", { value: code }, name));
  byId("source").replaceChildren(element("option", { value: AUTO }, "Detect language"), ...listed);
  byId("source").value = source;
  const all = state.languages.filter(({ code }) => source === AUTO || code === source).flatMap(({ targets }) => targets);
  const targets = [...new Set(all)].map((code) => element("option", { value: code }, languageName(code)));
  byId("target").replaceChildren(...targets);
  byId("target").value = [state.target, target, all[0]].find((code) => all.includes(code));
  fillModels();
}

// Fills the list of models for the two languages. Shows the list if there are several models.
function fillModels() {
  const from = byId("source").value === AUTO ? state.source : byId("source").value;
  const to = byId("target").value;
  const readers = state.models.filter(({ reads }) => reads === "text");
  const names = readers.filter((each) => each.directions.some((pair) => pair[0] === from && pair[1] === to)).map(({ id }) => id);
  const chosen = byId("model").value;
  byId("model").replaceChildren(element("option", { value: "" }, "automatic"), ...names.map((name) => element("option", {}, name)));
  byId("model").value = names.includes(chosen) ? chosen : "";
  byId("model-box").hidden = names.length < 2;
  byId("swap").disabled = !state.languages.some(({ code }) => code === to);
}

function swap() {
  const [source, target] = [byId("source").value, byId("target").value];
  const text = translation(state.parts);
  state.target = source === AUTO ? state.parts.find((part) => part.languages)?.languages.source : source;
  byId("source").value = target;
  fillLanguages();
  if (text.trim()) byId("text").value = text;
  translate();
}

// Throws an error if a file cannot be read. For such a file, fetch throws the same error as for a lost server.
async function checkReadable(file) {
  await file.slice(0, 1).arrayBuffer().catch(() => {
    throw new Error("The file cannot be read. Choose a file, not a folder.");
  });
}

// Sends a form, and returns the server's answer.
async function upload(path, fields) {
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...fields, api_key: apiKey() })) form.append(name, value);
  const headers = apiKey() ? { Authorization: `Bearer ${apiKey()}` } : {};
  return (await checked(await fetch(path, { method: "POST", body: form, headers }))).json();
}

// Uses files one after the other, after the files that already wait. Each file has a line in the box with its result,
// which `use` returns, or with an error. When no file waits, new files replace the old lines that have no link.
function useFiles(files, box, verb, use) {
  const lines = [...box.children];
  if (files.length && lines.every((line) => line.className)) for (const line of lines) if (!line.querySelector("a")) line.remove();
  for (const file of files) {
    const line = element("p", {}, `${file.name} waits …`);
    box.append(line);
    state[box.id] = Promise.resolve(state[box.id]).then(() => useFile(file, line, verb, use));
  }
}

async function useFile(file, line, verb, use) {
  line.textContent = `${verb} ${file.name} …`;
  try {
    await checkReadable(file);
    const result = await use(file, line);
    line.replaceChildren(`${file.name}: `, ...result);
    line.className = "done";
  } catch (error) {
    line.textContent = `${file.name}: ${describeError(error)}`;
    line.className = "error";
  }
}

// Translates documents. A line disappears when its document can no longer be downloaded.
function translateFiles(files) {
  const options = ["source", "target", "model"].map((id) => [id, byId(id).value]).filter(([, value]) => value);
  useFiles(files, byId("file-status"), "Translating", async (file, line) => {
    const { translatedFileUrl } = await upload("translate_file", { file, ...Object.fromEntries(options) });
    setTimeout(() => line.remove(), DOWNLOAD_TIME);
    const link = element("a", { href: new URL(translatedFileUrl).pathname.slice(1) }, "Download the translation");
    return [link, " (available for ten minutes)."];
  });
}

// Shows the texts in recordings or images, or their translations if the model writes a different language.
function transcribe(files) {
  const { name, reads, source, target } = state.recognizers[byId("sound-model").value];
  const path = source === target ? "audio/transcriptions" : "audio/translations";
  byId("sound-error").textContent = "";
  useFiles(files, byId("heard"), "Reading", async (file) => {
    const { text } = await upload(`v1/${reads === "audio" ? path : "recognize"}`, { file, model: name, target });
    return text ? [element("span", { lang: target, dir: "auto" }, text)] : ["no text was found."];
  });
}

// Starts to record from the microphone or, if a recording is under way, stops and transcribes it.
async function record() {
  if (state.recording) return state.recording.stop();
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const context = new AudioContext();
  const blocks = [];
  const node = context.createScriptProcessor(4096, 1, 1);
  node.onaudioprocess = ({ inputBuffer }) => blocks.push(inputBuffer.getChannelData(0).slice());
  context.createMediaStreamSource(stream).connect(node).connect(context.destination);
  const stop = async () => {
    state.recording = null;
    showRecording();
    for (const track of stream.getTracks()) track.stop();
    const samples = await resampled(blocks, context.sampleRate);
    await context.close();
    transcribe([new File([wav(samples)], "Recording")]);
  };
  state.recording = { stop };
  showRecording();
}

// Adapts the section for audio and images to the chosen model.
function showInput() {
  const { reads } = state.recognizers[byId("sound-model").value];
  byId("sound-file").accept = { audio: ".wav,.flac,.ogg,.oga,.opus,.mp3", image: ".png,.jpg,.jpeg" }[reads];
  byId("record").hidden = reads !== "audio" || !navigator.mediaDevices; // only on HTTPS and on this machine
}

function showRecording() {
  byId("record").textContent = state.recording ? "Stop" : "Record";
  byId("record").ariaPressed = String(Boolean(state.recording));
}

// Returns the samples of a recording at SAMPLE_RATE.
async function resampled(blocks, rate) {
  const length = blocks.reduce((sum, block) => sum + block.length, 0) || 1;
  const context = new OfflineAudioContext(1, Math.ceil((length * SAMPLE_RATE) / rate), SAMPLE_RATE);
  const buffer = context.createBuffer(1, length, rate);
  let start = 0;
  for (const block of blocks) {
    buffer.copyToChannel(block, 0, start);
    start += block.length;
  }
  const source = new AudioBufferSourceNode(context, { buffer });
  source.connect(context.destination);
  source.start();
  return (await context.startRendering()).getChannelData(0);
}

// Returns samples as a WAV file with one channel and 16-bit samples.
function wav(samples) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const write = (place, text) => [...text].forEach((letter, i) => view.setUint8(place + i, letter.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + 2 * samples.length, true);
  write(8, "WAVEfmt ");
  [16, 1 | (1 << 16), SAMPLE_RATE, 2 * SAMPLE_RATE, 2 | (16 << 16)].forEach((value, i) => view.setUint32(16 + 4 * i, value, true));
  write(36, "data");
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => view.setInt16(44 + 2 * i, 32767 * Math.max(-1, Math.min(1, sample)), true));
  return view.buffer;
}

const shown = ([name, score]) => `${name} ${score.toFixed(1)}`;

// Returns the lowest and the highest score for each metric, such as "BLEU 38.3 to 59.2".
function ranges(scores) {
  const byMetric = Object.groupBy(Object.entries(scores), ([name]) => name.split(" ")[0]);
  return Object.entries(byMetric).map(([metric, entries]) => {
    const values = entries.map(([, score]) => score);
    return `${shown([metric, Math.min(...values)])} to ${Math.max(...values).toFixed(1)}`;
  });
}

function showModels() {
  const rows = state.models.map((model) => {
    const speech = { audio: "speech: ", image: "images: " }[model.reads] || "";
    const pairs = model.directions.map((pair) => speech + [...new Set(pair.map(languageName))].join(" to "));
    const names = [...new Set(model.directions.flat())].map(languageName);
    const many = names.length > MAX_LANGUAGES ? `${names.length} languages` : names.join(", ");
    const languages = pairs.length > MAX_DIRECTIONS ? many : pairs.join("\n") || model.task;
    const scores = pairs.length > MAX_DIRECTIONS ? ranges(model.scores) : Object.entries(model.scores).map(shown);
    const cells = [model.id, languages, scores.join("\n"), model.licence || ""];
    return element("tr", {}, ...cells.map((text) => element("td", {}, text)));
  });
  byId("models").replaceChildren(...rows);
}

async function start() {
  byId("key").value = storage("sessionStorage").getItem("key") || "";
  const [languages, settings, { data: models }] = await Promise.all(["languages", "frontend/settings", "v1/models"].map((path) => json(path)));
  Object.assign(state, { languages, models });
  byId("key-box").hidden = !settings.keyRequired;
  document.querySelector(".work").hidden = !languages.length;
  byId("documents").hidden = !settings.filesTranslation || !languages.length;
  byId("file").setAttribute("accept", settings.supportedFilesFormat.join(","));
  const recognizers = models
    .filter(({ reads }) => reads !== "text")
    .flatMap(({ id, reads, directions }) => directions.map(([source, target]) => ({ name: id, reads, source, target })));
  state.recognizers = recognizers;
  const titles = { audio: "Speech", image: "Images" };
  byId("sound-title").textContent = [...new Set(recognizers.map(({ reads }) => titles[reads]))].join(" and ");
  const options = recognizers.map(({ name, source, target }, index) =>
    element("option", { value: index }, `${name}: ${[...new Set([source, target].map(languageName))].join(" to ")}`),
  );
  byId("sound-model").replaceChildren(...options);
  byId("sound").hidden = !recognizers.length;
  if (recognizers.length) showInput();
  fillLanguages();
  showModels();
}

const later = () => {
  clearTimeout(state.timer);
  state.timer = setTimeout(translate, DELAY);
};
const on = (id, name, action) => byId(id).addEventListener(name, action);
on("text", "input", later);
on("clear", "click", () => ((byId("text").value = ""), byId("text").focus(), translate()));
on("source", "change", () => (fillLanguages(), translate()));
on("target", "change", () => ((state.target = byId("target").value), fillModels(), translate()));
on("model", "change", translate);
on("key", "input", () => (storage("sessionStorage").setItem("key", byId("key").value), later()));
on("swap", "click", swap);
on("copy", "click", () => copy().catch(showError));
on("close", "click", closeWord);
on("theme", "change", () => setTheme(byId("theme").value));
on("result", "keydown", moveFocus);
for (const id of ["layer", "head"]) on(id, "change", () => showAttention().catch((error) => showError(error, "word-error")));
document.addEventListener("keydown", (event) => event.key === "Escape" && closeWord());
on("file", "change", () => translateFiles(byId("file").files));
on("sound-model", "change", showInput);
on("sound-file", "change", () => transcribe(byId("sound-file").files));
on("record", "click", () => record().catch((error) => showError(error, "sound-error")));
for (const id of ["file", "sound-file"]) on(id, "click", () => (byId(id).value = "")); // the same file can be chosen again
// The whole page accepts documents, because the browser would open a file that is dropped next to the section.
for (const [area, id, use] of [[byId("sound"), "sound", transcribe], [document, "documents", translateFiles]])
  for (const name of ["dragover", "dragleave", "drop"])
    area.addEventListener(name, (event) => {
      if (event.defaultPrevented || !event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      byId(id).classList.toggle("over", name === "dragover");
      if (name !== "drop") return;
      byId(id).scrollIntoView({ block: "nearest" });
      use(event.dataTransfer.files);
    });
setTheme(storage("localStorage").getItem("theme") || "");
start().catch(showError);
