"use strict";
// Each head of a column becomes a button that sorts by it: small first, then large first. Figures
// go by their value, so that 900 us stands before 1 ms; a dash is last both ways. The page is XML
// too: no sign here may be one that would need to be escaped there.
(() => {
  const SCALES = {
    p: 1e-12, n: 1e-9, "\u00b5": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15,
    Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
  };
  const FIGURE = /^([+-]?[\d.,]+(?:e[+-]?\d+)?|inf)\s?([KMGT]i|[pn\u00b5mkMGTP])?(?:s|B|FLOP|\/|%|x|$|\s|\[)/;
  const AT_ONCE = 500; // rows: more than can be seen
  const words = new Intl.Collator("en", { numeric: true });

  const key = (text) => {
    const found = FIGURE.exec(text);
    if (text === "-" || text === "") return { rank: 2, value: 0, text };
    if (found === null) return { rank: 1, value: 0, text };
    const number = found[1] === "inf" ? Infinity : Number(found[1].replaceAll(",", ""));
    if (Number.isNaN(number)) return { rank: 1, value: 0, text };
    return { rank: 0, value: number * (SCALES[found[2]] ?? 1), text };
  };

  const order = (a, b) => {
    if (a.rank === 1) return words.compare(a.text, b.text);
    return a.value === b.value ? 0 : a.value > b.value ? 1 : -1;
  };

  // To lay out thousands of rows takes seconds: those that can be seen come at once, the others
  // part by part behind them, until another click.
  const put = (body, rows, wanted) => {
    body.append(...rows.slice(0, AT_ONCE));
    const others = rows.slice(AT_ONCE);
    if (others.length > 0) setTimeout(() => { if (wanted()) put(body, others, wanted); });
  };

  const prepare = (table) => {
    const heads = Array.from(table.tHead.rows[0].cells);
    const body = table.tBodies[0];
    const entries = Array.from(body.rows, (row) => ({ row, keys: [] }));
    let clicks = 0;

    const sort = (head) => {
      const turned = head.getAttribute("aria-sort") === "ascending";
      const at = head.cellIndex;
      for (const { row, keys } of entries) keys[at] ??= key(row.cells[at].textContent);
      entries.sort(({ keys: { [at]: a } }, { keys: { [at]: b } }) =>
        a.rank - b.rank || (turned ? order(b, a) : order(a, b)));
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", turned ? "descending" : "ascending");
      clicks += 1;
      const click = clicks;
      body.replaceChildren();
      put(body, entries.map(({ row }) => row), () => click === clicks);
    };

    for (const head of heads) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(head));
    }
  };

  for (const table of document.querySelectorAll("table")) {
    if (table.tBodies[0].rows.length > 1) prepare(table);
  }
})();
