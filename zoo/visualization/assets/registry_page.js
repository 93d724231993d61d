"use strict";
// Filters and sorts the rows of a registry's page. Without this script, all rows are shown in their original order.
const form = document.querySelector("form");
const body = document.querySelector("tbody");
const count = document.getElementById("count");
const search = document.getElementById("search");
const rows = [...body.rows];
const LARGEST_FIRST = new Set(["Parameters", "Score", "Published"]);

// Return text in lower case without accents, so that a search for "francaise" finds "française".
const plain = (words) => words.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

function languageName(code) {
  if (code === "und") return "unknown"; // browsers call it "root"
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code; // the browser does not know this code
  }
}

for (const row of rows) {
  const cell = row.querySelector('[data-column="Languages"]');
  const names = [...cell.querySelectorAll(".language")].map((each) => languageName(each.textContent));
  const shown = document.createElement("span");
  shown.className = "names quiet";
  shown.textContent = names.join(cell.textContent.includes("→") ? " → " : ", ");
  cell.append(shown);
}
for (const option of form.querySelectorAll('[name="source"] option, [name="target"] option')) {
  if (option.value) option.textContent = `${languageName(option.value)} (${option.value})`;
}
const textOf = new Map(rows.map((row) => [row, plain(row.textContent)]));

function show() {
  const words = plain(search.value).split(/\s+/).filter(Boolean);
  const chosen = [...form.querySelectorAll("select")].filter((each) => each.value);
  let visible = 0;
  for (const row of rows) {
    const fits = words.every((word) => textOf.get(row).includes(word));
    row.hidden = !(fits && chosen.every((each) => row.dataset[each.name].split(" ").includes(each.value)));
    visible += !row.hidden;
  }
  const all = `${rows.length.toLocaleString("en")} model${rows.length === 1 ? "" : "s"}`;
  count.textContent = visible === rows.length ? all : `${visible.toLocaleString("en")} of ${all}`;
}

// Compare two sort keys. Rows without a key come last in both directions.
function compare(one, other, numbers, down) {
  if (!one || !other) return Boolean(other) - Boolean(one);
  const order = numbers ? Number(one) - Number(other) : one.localeCompare(other, "en", { numeric: true });
  return down ? -order : order;
}

function sort(column, head) {
  const initial = LARGEST_FIRST.has(head.textContent) ? "descending" : "ascending";
  const opposite = initial === "ascending" ? "descending" : "ascending";
  const direction = head.getAttribute("aria-sort") === initial ? opposite : initial;
  for (const each of head.parentNode.cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", direction);
  const numbers = head.classList.contains("number");
  const key = (row) => row.cells[column].dataset.key;
  rows.sort((one, other) => compare(key(one), key(other), numbers, direction === "descending"));
  body.append(...rows);
}

for (const [column, head] of [...document.querySelectorAll("thead th")].entries()) {
  if (head.textContent === "Description") continue;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => sort(column, head));
}
form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
form.hidden = false;
show(); // the browser keeps the search text when the user returns
