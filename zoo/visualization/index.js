"use strict";
// The page of a registry: rows are shown or hidden, and put into another order. Without this all stand in their own.
const form = document.querySelector("form");
const body = document.querySelector("tbody");
const told = document.getElementById("told");
const sought = document.getElementById("sought");
const rows = [...body.rows];
const LARGEST_FIRST = new Set(["Parameters", "Score", "Published"]);

// Small letters without marks, so that "française" is found by "francaise".
const plain = (words) => words.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

function named(code) {
  if (code === "und") return "unknown"; // which browsers call "root"
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // no language that the browser knows
  }
}

for (const row of rows) {
  const cell = row.querySelector('[data-called="Languages"]');
  const names = [...cell.querySelectorAll(".language")].map((each) => named(each.textContent));
  const shown = document.createElement("span");
  shown.className = "names quiet";
  shown.textContent = names.join(" → ");
  cell.append(shown);
}
for (const option of form.querySelectorAll('[name="source"] option, [name="target"] option')) {
  if (option.value) option.textContent = `${named(option.value)} (${option.value})`;
}
const words = new Map(rows.map((row) => [row, plain(row.textContent)]));

function show() {
  const wanted = plain(sought.value).split(/\s+/).filter(Boolean);
  const chosen = [...form.querySelectorAll("select")].filter((each) => each.value);
  let count = 0;
  for (const row of rows) {
    const fits = wanted.every((word) => words.get(row).includes(word));
    row.hidden = !(fits && chosen.every((each) => row.dataset[each.name] === each.value));
    count += !row.hidden;
  }
  const all = `${rows.length.toLocaleString("en")} model${rows.length === 1 ? "" : "s"}`;
  told.textContent = count === rows.length ? all : `${count.toLocaleString("en")} of ${all}`;
}

// What has no value stands last, whichever way the others are sorted.
function compared(one, other, numbers, down) {
  if (!one || !other) return Boolean(other) - Boolean(one);
  const way = numbers ? Number(one) - Number(other) : one.localeCompare(other, "en", { numeric: true });
  return down ? -way : way;
}

function sort(column, head) {
  const first = LARGEST_FIRST.has(head.textContent) ? "descending" : "ascending";
  const other = first === "ascending" ? "descending" : "ascending";
  const way = head.getAttribute("aria-sort") === first ? other : first;
  for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", way);
  const numbers = head.classList.contains("number");
  const key = (row) => row.cells[column].dataset.key;
  rows.sort((one, other) => compared(key(one), key(other), numbers, way === "descending"));
  body.append(...rows);
}

for (const [column, head] of [...document.querySelectorAll("thead th")].entries()) {
  if (head.textContent === "What it is") continue;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => sort(column, head));
}
form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
show(); // a page that is come back to has its words still
