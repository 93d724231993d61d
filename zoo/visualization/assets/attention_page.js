"use strict";
// Draws the selected attention weights and describes them in words. The style sheet defines colours and print layout.
const LEVELS = 32; // number of opacity levels; a weight below half a level is not drawn
const ROW = 24; // distance between words in pixels
const MIN_WEIGHT = 0.005; // smallest weight in the table; smaller weights would be shown as 0%
const SVG = "http://www.w3.org/2000/svg";
const all = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const isOneWord = all.picture && all.kinds.at(-1).words.rows.length < 3; // one word and </s>, as for a string of digits
const state = { ...all.first, heads: new Set(all.first.heads), unit: isOneWord ? "tokens" : "words", side: "rows" };
let weights; // one byte per weight, in the order of `all.kinds`

async function unpack() {
  const packed = Uint8Array.from(atob(byId("weights").textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const kind = () => all.kinds.find((each) => each.name === state.kind);
const grid = () => kind()[state.unit];
const heads = () => [...state.heads].sort((a, b) => a - b);
const percent = (weight) => `${Math.round(100 * weight)}%`;

// Return the weight with which a row attends to a column in one head. All indices start at 0.
function weight(head, row, column) {
  const { offset, rows, columns } = grid();
  const block = (state.layer - 1) * kind().heads + head;
  return weights[offset + (block * rows.length + row) * columns.length + column] / 255;
}

function element(name, attributes = {}, ...inside) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...inside);
  return node;
}

// Append one SVG path per head and opacity level. `shape` returns the path data for a row and a column. Weights
// equal to `largest` are opaque.
function paths(svg, shown, shape, attribute, largest = 1) {
  const { rows, columns } = grid();
  for (const [place, head] of shown.entries()) {
    const drawn = Array.from({ length: LEVELS + 1 }, () => []);
    for (let row = 0; row < rows.length; row++) {
      if (state.side === "rows" && state.word !== null && row !== state.word && attribute === "stroke") continue;
      for (let column = 0; column < columns.length; column++) {
        if (state.side === "columns" && state.word !== null && column !== state.word && attribute === "stroke") continue;
        const level = Math.round((LEVELS * weight(head, row, column)) / largest);
        if (level) drawn[level].push(shape(row, column, place));
      }
    }
    for (const [level, parts] of drawn.entries()) {
      if (!parts.length) continue;
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("d", parts.join(""));
      path.setAttribute("style", `${attribute}: var(--series-${head}); ${attribute}-opacity: ${level / LEVELS}`);
      svg.append(path);
    }
  }
}

function drawLines() {
  const { rows, columns } = grid();
  const shown = heads();
  const svg = byId("lines");
  const high = ROW * Math.max(rows.length, columns.length);
  svg.setAttribute("viewBox", `0 0 100 ${high}`);
  svg.style.height = `${high}px`;
  const apart = Math.min(2.5, 14 / Math.max(1, shown.length));
  const y = (word, place) => ROW * (word + 0.5) + apart * (place - (shown.length - 1) / 2);
  svg.replaceChildren();
  paths(svg, shown, (row, column, place) => `M0 ${y(row, place)}L100 ${y(column, place)}`, "stroke");
}

// Fill a list box with words. The box is one tab stop, and arrow keys move inside it.
function list(side) {
  const box = byId(side);
  const words = grid()[side];
  box.setAttribute("aria-label", side === "rows" ? kind().rowsTitle : kind().columnsTitle);
  box.replaceChildren(
    ...words.map((word, place) => {
      const option = element("li", { role: "option", id: `${side}-${place}`, "aria-selected": "false", title: word });
      option.append(element("bdi", {}, word), element("span", { class: "strips", "aria-hidden": "true" }));
      return option;
    }),
  );
}

function drawLists() {
  for (const side of ["rows", "columns"]) {
    const box = byId(side);
    const [here, own] = [side === state.side && state.word !== null, heads()];
    box.dataset.active = Math.min(Number(box.dataset.active ?? 0), box.children.length - 1);
    if (here) box.dataset.active = state.word;
    box.setAttribute("aria-activedescendant", `${side}-${box.dataset.active}`);
    for (const [place, option] of [...box.children].entries()) {
      option.setAttribute("aria-selected", String(here && place === state.word));
      option.classList.toggle("active", place === Number(box.dataset.active));
      const strips = option.lastChild;
      strips.replaceChildren();
      if (here || state.word === null) continue;
      for (const head of own) {
        const pair = state.side === "rows" ? [state.word, place] : [place, state.word];
        strips.append(element("i", { style: `background: var(--series-${head}); opacity: ${weight(head, ...pair)}` }));
      }
    }
  }
}

// Show the weights of the chosen word as a table.
function drawTable() {
  const box = byId("table");
  const shown = heads();
  if (state.word === null || !shown.length) {
    box.replaceChildren(element("p", { class: "quiet" }, "Choose a word and at least one head to see its weights in a table."));
    return;
  }
  const word = grid()[state.side][state.word];
  const others = grid()[state.side === "rows" ? "columns" : "rows"].map((other, place) => {
    const own = shown.map((head) => weight(head, ...(state.side === "rows" ? [state.word, place] : [place, state.word])));
    return { other, own, mean: own.reduce((sum, each) => sum + each, 0) / own.length };
  });
  const best = others.filter((each) => each.mean >= MIN_WEIGHT).sort((a, b) => b.mean - a.mean);
  const number = (value) => element("td", { class: "number" }, percent(value));
  const names = ["mean", ...shown.map((head) => `head ${head + 1}`)];
  const title = state.side === "rows" ? ["“", "” attends to, largest weight first"] : ["Words that attend to “", "”, largest weight first"];
  const columns = names.map((name) => element("th", { scope: "col", class: "number" }, name));
  const line = (each) =>
    element("tr", {}, element("th", { scope: "row" }, element("bdi", {}, each.other)), number(each.mean), ...each.own.map(number));
  box.replaceChildren(
    element(
      "table",
      {},
      element("caption", {}, title[0], element("bdi", {}, word), title[1]),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "word"), ...columns)),
      element("tbody", {}, ...best.map(line)),
    ),
  );
}

function matrix(head) {
  const { rows, columns } = grid();
  const svg = document.createElementNS(SVG, "svg");
  const longest = Math.max(...[...rows, ...columns].map((word) => [...word].length));
  const margin = Math.min(0.55 * longest + 0.8, Math.max(5, Math.min(12, 0.5 * columns.length))); // for labels
  const high = all.picture && kind().overSource ? Math.max(3, columns.length / 6) : 0; // height of the image
  svg.setAttribute("viewBox", `${-margin} ${-margin - high} ${columns.length + margin} ${rows.length + margin + high}`);
  svg.setAttribute("style", `max-width: ${1.4 * (columns.length + margin)}rem`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Head ${head + 1}: rows: ${kind().rowsTitle.toLowerCase()}, columns: ${kind().columnsTitle.toLowerCase()}; the table contains the weights of the chosen word`);
  const back = document.createElementNS(SVG, "rect");
  for (const [key, value] of Object.entries({ class: "back", width: columns.length, height: rows.length })) back.setAttribute(key, value);
  svg.append(back);
  if (high) {
    const picture = document.createElementNS(SVG, "image");
    const place = { href: all.picture, y: -high, width: columns.length, height: high, preserveAspectRatio: "none" };
    for (const [key, value] of Object.entries(place)) picture.setAttribute(key, value);
    svg.append(picture);
  }
  // The weights of an image's many columns are small.
  const largest = high ? Math.max(0.01, ...rows.flatMap((_, row) => columns.map((_, column) => weight(head, row, column)))) : 1;
  paths(svg, [head], (row, column) => `M${column} ${row}h1v1h-1z`, "fill", largest);
  const label = (word, transform, anchor) => {
    const node = document.createElementNS(SVG, "text");
    node.setAttribute("transform", transform);
    node.setAttribute("text-anchor", anchor);
    const [letters, max] = [[...word], Math.floor((margin - 0.3) / 0.5)];
    node.textContent = letters.length > max ? `${letters.slice(0, max - 1).join("")}…` : word;
    svg.append(node);
  };
  rows.forEach((word, row) => label(word, `translate(-.3 ${row + 0.72})`, "end"));
  columns.forEach((word, column) => label(word, `translate(${column + 0.72} ${-high - 0.3}) rotate(-90)`, "start"));
  svg.addEventListener("pointermove", (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const [row, column] = [Math.floor(at.y), Math.floor(at.x)];
    const inside = row >= 0 && column >= 0 && row < rows.length && column < columns.length;
    byId("cell").textContent = inside ? `${rows[row]} → ${columns[column]}: ${percent(weight(head, row, column))} (head ${head + 1})` : "";
  });
  const scale = high ? `; ${percent(largest)} is opaque` : "";
  return element("figure", {}, element("figcaption", {}, `Head ${head + 1}${scale}`), svg);
}

function summary() {
  const of = kind();
  const shown = heads().map((head) => head + 1);
  const some = shown.length === of.heads ? (shown.length === 1 ? "its head" : `all ${of.heads} heads`) : shown.length ? `head${shown.length > 1 ? "s" : ""} ${shown.join(", ")}` : "no head";
  const word = state.word === null ? "every word" : `“${grid()[state.side][state.word]}”`;
  return `${of.title}, layer ${state.layer} of ${of.layers}: ${some}, ${word}. Left: ${of.rowsTitle.toLowerCase()}; right: ${of.columnsTitle.toLowerCase()}.`;
}

function draw() {
  drawLists();
  drawLines();
  drawTable();
  byId("matrices").style.setProperty("--min-width", `${all.picture ? 36 : Math.min(36, Math.max(17, 0.55 * grid().columns.length))}rem`);
  byId("matrices").replaceChildren(...heads().map(matrix));
  byId("summary").textContent = summary();
  for (const box of document.querySelectorAll("[name=head]")) box.checked = state.heads.has(Number(box.value));
}

// Rebuild the list of layers and the word lists after the kind of attention or the unit (words, tokens) has changed.
function redraw() {
  const of = kind();
  state.layer = Math.min(state.layer, of.layers);
  byId("layer").replaceChildren(
    ...Array.from({ length: of.layers }, (_, place) => element("option", place + 1 === state.layer ? { selected: "" } : {}, String(place + 1))),
  );
  list("rows");
  list("columns");
  draw();
}

function choose(side, word) {
  const same = state.side === side && state.word === word;
  [state.side, state.word] = [side, same ? null : word];
  draw();
}

function move(side, event) {
  const box = byId(side);
  const last = box.children.length - 1;
  const active = Number(box.dataset.active);
  const to = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: last, PageDown: active + 10, PageUp: active - 10 }[event.key];
  if (event.key === "Enter" || event.key === " ") choose(side, active);
  else if (event.key === "Escape") [state.word] = [null];
  else if (to !== undefined) {
    box.dataset.active = Math.max(0, Math.min(last, to));
    if (state.side === side && state.word !== null) state.word = Number(box.dataset.active);
  } else return;
  event.preventDefault();
  draw();
  byId(box.getAttribute("aria-activedescendant")).scrollIntoView({ block: "nearest" });
}

function listen() {
  for (const side of ["rows", "columns"]) {
    byId(side).addEventListener("keydown", (event) => move(side, event));
    byId(side).addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) {
        byId(side).dataset.active = option.id.split("-")[1];
        choose(side, Number(option.id.split("-")[1]));
      }
    });
  }
  byId("layer").addEventListener("change", (event) => { state.layer = Number(event.target.value); draw(); });
  for (const name of ["kind", "unit"]) {
    for (const box of document.querySelectorAll(`[name=${name}]`)) {
      box.checked = box.value === state[name];
      box.addEventListener("change", () => { state[name] = box.value; state.word = null; redraw(); });
    }
  }
  for (const box of document.querySelectorAll("[name=head]")) {
    box.addEventListener("change", () => { state.heads[box.checked ? "add" : "delete"](Number(box.value)); draw(); });
  }
  byId("all").addEventListener("click", () => { state.heads = new Set(Array(kind().heads).keys()); draw(); });
  byId("none").addEventListener("click", () => { state.heads = new Set(); draw(); });
}

unpack().then((numbers) => {
  weights = numbers;
  listen();
  redraw();
  byId("view").hidden = false;
}).catch((error) => {
  const message = `This browser cannot draw the attention weights. Open the page in a newer browser (${error.message}).`;
  byId("view").before(element("p", { role: "alert" }, message));
});
