// Tables that can be sorted and searched, and links into what is folded up. What rows show is theirs:
// a value is read from its cell, in the units of units.py.
(() => {
  const UNITS = {
    ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, min: 6e10, h: 3.6e12, d: 8.64e13,
    KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40, PiB: 2 ** 50,
  };
  const MOST_AT_A_GLANCE = 10;
  const IS_REST = /^\([\d,]+ more/;

  const make = (tag, attributes, text) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text ?? "";
    return made;
  };

  // What is not measured is less than everything.
  const value = (text) => {
    const [, sign, number, unit] = /^([<>]?)(-?[\d,.]+)(?:\s+(\S+))?/.exec(text) ?? [];
    if (number === undefined) return -Infinity;
    const nearly = sign === "<" ? 0.999 : sign === ">" ? 1.0005 : 1;
    return parseFloat(number.replaceAll(",", "")) * (UNITS[unit] ?? 1) * nearly;
  };

  const cells = (row) => [...row.children];
  const isRest = (row) => IS_REST.test(cells(row)[0].textContent);

  function sort(table, head, at) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const isWords = rows.every((row) => value(cells(row)[at].textContent) === -Infinity || at === 0);
    const falls = head.getAttribute("aria-sort") !== (isWords ? "ascending" : "descending");
    const direction = falls === isWords ? 1 : -1;
    table.querySelectorAll("th[aria-sort]").forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const compare = (a, b) => {
      const [one, other] = [a, b].map((row) => cells(row)[at].textContent);
      if (isWords) return one.localeCompare(other, "en", { numeric: true });
      const difference = value(one) - value(other);
      return Number.isNaN(difference) ? 0 : difference;
    };
    rows.sort((a, b) => isRest(a) - isRest(b) || direction * compare(a, b));
    body.append(...rows);
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    heads.forEach((head, at) => {
      const button = make("button", { type: "button", class: "sort" }, head.textContent);
      button.addEventListener("click", () => sort(table, head, at));
      head.replaceChildren(button);
    });
  }

  function searchable(table) {
    const what = table.caption.textContent;
    const input = make("input", { type: "search", placeholder: "filter", "aria-label": `Filter: ${what}` });
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
    table.parentElement.before(input);
  }

  function reveal() {
    const found = location.hash && document.getElementById(location.hash.slice(1));
    if (!found) return;
    for (let each = found; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    found.scrollIntoView();
  }

  for (const table of document.querySelectorAll("table")) {
    // Rows of a chart's table belong to its places, and those in groups to their group
    if (table.closest("figure") || table.querySelector("th[scope=rowgroup]")) continue;
    const rows = table.tBodies[0].rows.length;
    if (rows > 1) sortable(table);
    if (rows > MOST_AT_A_GLANCE) searchable(table);
  }
  // What can be scrolled by keys is a stop for them; what fits is none.
  const fits = new ResizeObserver((seen) => {
    for (const { target } of seen) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  });
  document.querySelectorAll(".wide").forEach((each) => fits.observe(each));
  addEventListener("hashchange", reveal);
  reveal();
})();
