// The course of a session: a moment is picked in one of its charts, or by the slider above them, and
// what ran then is told, from the row of the table that Python made. All charts mark the same moment.
(() => {
  const make = (parent, tag, attributes = {}, text = "") => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    parent?.append(made);
    return made;
  };

  // What columns are called, each with what stands above it: "reads: calls".
  function names(table) {
    const groups = table.tHead.rows.length > 1
      ? [...table.tHead.rows[0].cells].flatMap((cell) => Array(cell.colSpan).fill(cell.textContent)) : [];
    return [...table.tHead.rows[table.tHead.rows.length - 1].cells].map((head, at) => [groups[at] ?? "", head.textContent]);
  }

  function build(course) {
    const pieces = course.dataset.pieces.split(" ").map((piece) => piece.split(",").map(Number));
    const rows = pieces.map((_, at) => document.getElementById(`interval-${at}`));
    const heads = names(rows[0].closest("table"));
    const marks = [...course.querySelectorAll("figure.time > .wide > svg")].map((svg) => {
      const mark = document.createElementNS(svg.namespaceURI, "rect");
      mark.setAttribute("class", "mark");
      mark.setAttribute("height", svg.viewBox.baseVal.height - 20);
      mark.setAttribute("aria-hidden", "true");
      svg.append(mark);
      svg.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        const box = svg.getBoundingClientRect();
        pick(at((event.clientX - box.left) / box.width * svg.viewBox.baseVal.width));
      });
      return mark;
    });
    const panel = make(null, "div", { class: "moment", role: "group", "aria-label": "What ran in a moment" });
    course.prepend(panel);
    const label = make(panel, "label", {}, "Moment ");
    const slider = make(label, "input", { type: "range", min: 0, max: pieces.length - 1, step: 1 });
    const told = make(panel, "div", { class: "told", "aria-live": "polite" });
    const at = (x) => {
      const behind = pieces.findIndex(([left]) => left > x);
      return Math.max(0, (behind < 0 ? pieces.length : behind) - 1);
    };

    function pick(number) {
      const [left, width] = pieces[number];
      for (const mark of marks) {
        mark.setAttribute("x", left);
        mark.setAttribute("width", width);
      }
      const [name, ...cells] = rows[number].cells;
      const groups = new Map();
      let list = null;
      cells.forEach((cell, column) => {
        const [group, head] = heads[column + 1];
        if (cell.querySelector("ul")) list = cell.querySelector("ul").cloneNode(true);
        else if (cell.className !== "words" && !/^(0|0 ns|0 %|-)$/.test(cell.textContent)) {
          groups.set(group, [...(groups.get(group) ?? []), `${head} ${cell.textContent}`]);
        }
      });
      const sums = [...groups].map(([group, parts]) => `${group ? `${group}: ` : ""}${parts.join(", ")}`);
      slider.value = number;
      slider.setAttribute("aria-valuetext", name.textContent);
      told.replaceChildren();
      const head = make(told, "p");
      make(head, "a", { href: `#interval-${number}` }, name.textContent);
      head.append(` ${sums.join(" · ")}`);
      told.append(list ?? make(told, "p", {}, "Nothing took long enough to be told apart."));
    }

    slider.addEventListener("input", () => pick(+slider.value));
    const linked = /^#interval-(\d+)$/.exec(location.hash);
    pick(Math.min(pieces.length - 1, linked ? +linked[1] : +course.dataset.first));
    addEventListener("hashchange", () => {
      const now = /^#interval-(\d+)$/.exec(location.hash);
      if (now && pieces[now[1]]) pick(+now[1]);
    });
  }

  document.querySelectorAll(".course").forEach(build);
})();
