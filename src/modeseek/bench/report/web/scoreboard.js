// The scoreboard: ECDFs, mean ranks with critical differences, and functions won and lost, of what is selected.
// Ranks are among the methods shown; `scoreboard_charts.py` says what the data are.

function scoreboard(box, board) {
  const number = method => board.methods.indexOf(method);
  const option = (value, title) => `<option value="${escaped(value)}">${escaped(title)}</option>`;
  box.insertAdjacentHTML("beforeend", `<div class="filters">
    <label>Suite <select name="suite">${board.suites.map(s => option(s.name, s.title)).join("")}</select></label>
    <label>Dimension <select name="d"></select></label>
    <label><input type="checkbox" name="complete"> only methods with at least 80 % of the problems</label>
    <span>Methods: click them in the legend.</span></div>
    <div class="pair"><figure></figure><div class="ranks"></div></div>
    <h3>Methods</h3><div class="table"><table class="methods"></table></div>
    <h3>Functions won and lost</h3>
    <p>Mean rank on each function. <b class="better">▲</b> better and <b class="worse">▼</b> worse than the best other method shown.</p>
    <div class="table"><table class="functions"></table></div>`);
  const [suite, d, complete] = ["suite", "d", "complete"].map(name => box.querySelector(`[name=${name}]`));

  function dimensions() {
    const keys = Object.keys(board.parts).map(key => key.split("|")).filter(key => key[0] === suite.value);
    keys.sort((a, b) => a[1] - b[1]); // all dimensions first, where there are several
    d.innerHTML = keys.map(([, size]) => option(size, size || "all")).join("");
  }

  function render() {
    const part = board.parts[`${suite.value}|${d.value}`];
    const problems = board.problems.filter(p =>
      board.functions[p[0]].suite === suite.value && (!d.value || p[1] === +d.value));
    const shown = board.methods.filter(m => part.solved[number(m)] && !hidden.has(m));
    const ranked = covering(problems, shown.map(number), complete.checked ? 0.8 : board.coverage);
    const methods = complete.checked ? shown.filter(m => ranked.includes(number(m))) : shown;
    const result = ranking(board, problems, ranked);
    const best = m => result.order.includes(m) ? result.order.indexOf(m) : Infinity;
    const ordered = methods.map(number).sort((a, b) => best(a) - best(b) || part.solved[b].at(-1) - part.solved[a].at(-1));
    const comparable = ordered.filter(m => ranked.includes(m)); // others ran easier or harder problems
    show(box.querySelector("figure"), ecdf(board, part, comparable.length > 1 ? comparable : ordered));
    box.querySelector(".ranks").innerHTML = differences(board, result, problems.length, box.querySelector(".ranks").clientWidth);
    const functions = board.functions.map((f, i) => ({ ...f, problems: problems.filter(p => p[0] === i) }))
      .filter(f => f.problems.length);
    const judged = functions.map(f => verdicts(part.rivals[f.name] ?? {}, ordered));
    box.querySelector(".methods").innerHTML = methodTable(board, part, problems, result, ordered, judged);
    box.querySelector(".functions").innerHTML = functionTable(board, functions, ranked, ordered, judged);
  }

  suite.onchange = () => { dimensions(); render(); };
  d.onchange = complete.onchange = render;
  document.addEventListener("methods", render);
  onWidth(box.querySelector(".ranks"), render);
  dimensions();
  render();
}

// The methods with this share of the problems of every dimension.
function covering(problems, methods, share) {
  const sizes = [...new Set(problems.map(p => p[1]))].map(d => problems.filter(p => p[1] === d));
  return methods.filter(m => sizes.every(of => of.filter(p => p[2 + m]).length >= share * of.length - 1e-9));
}

// Mean ranks on the problems that all methods have, by Friedman's and Nemenyi's tests (Demsar 2006).
function ranking(board, problems, methods) {
  const common = problems.filter(p => methods.every(m => p[2 + m]));
  const n = common.length, k = methods.length;
  const sums = methods.map(() => 0);
  let ties = 0;
  for (const p of common) {
    methods.forEach((m, i) => {
      const below = methods.filter(o => p[2 + o] < p[2 + m]).length, same = methods.filter(o => p[2 + o] === p[2 + m]).length;
      sums[i] += below + (same + 1) / 2;
      ties += same ** 2 - 1;
    });
  }
  const mean = new Map(methods.map((m, i) => [m, sums[i] / n]));
  const order = n ? [...methods].sort((a, b) => mean.get(a) - mean.get(b)) : [];
  const statistic = (12 / (n * k * (k + 1)) * sums.reduce((s, r) => s + r * r, 0) - 3 * n * (k + 1)) / (1 - ties / (n * k * (k * k - 1)));
  const differ = k < 3 || n < 2 || statistic > board.friedman[k];
  const cd = board.quantiles[k] * Math.sqrt(k * (k + 1) / (6 * n));
  const groups = [];
  let reach = 0;
  order.forEach((m, i) => {
    const last = differ ? order.findLastIndex(o => mean.get(o) < mean.get(m) + cd) : order.length - 1;
    if (last > Math.max(i, reach)) groups.push([i, reach = last]);
  });
  const level = groups.length && groups[0][0] === 0 ? groups[0][1] : 0; // the last that is level with the best
  return { n, mean, order, cd, groups, level };
}

function ecdf(board, part, methods) {
  const series = methods.map(m => ({ name: board.methods[m], start: 0, mean: part.solved[m] }));
  const high = Math.max(0.1, ...series.flatMap(s => s.mean)) * 1.04;
  return {
    title: "Targets solved", note: "share of (problem, target) pairs, 10² … 10⁻⁸", x: part.grid, log_x: true, first: part.grid[0],
    label_x: "evaluations / d", low: 0, high, series,
  };
}

// Demsar's diagram: methods on an axis of mean ranks, with bars over those that are level.
function differences(board, { n, mean, order, cd, groups }, total, width) {
  const title = `<figcaption>Critical differences<small>mean rank on the ${n} of ${total} problems that all ${order.length} have</small></figcaption>`;
  if (!n || order.length < 2) return `${title}<p>There are no problems that all of these methods have: hide some.</p>`;
  const letters = Math.max(...order.map(m => board.methods[m].length)) + 5; // a name and its rank
  const k = order.length, half = Math.ceil(k / 2), side = Math.min(6.6 * letters + 8, width * 0.33), row = 19;
  const most = Math.floor((side - 8) / 6.6) - 5; // letters of a name that fit
  const fitting = name => escaped(name.length > most ? `${name.slice(0, most - 1)}…` : name);
  const x = scale(false, [1, k], [side + 10, width - side - 10]);
  const top = 46, first = top + 16 + 6 * groups.length, parts = [];
  const end = Math.min(x(1 + cd), width - 4);
  parts.push(`<path class="ink" d="M${x(1)},14v6m0,-3H${end}m0,-3v6"/><text x="${x(1)}" y="10">critical difference ${cd.toFixed(2)}</text>`);
  parts.push(`<path class="ink" d="M${x(1)},${top}H${x(k)}"/>`);
  for (let v = 1; v <= k; v += Math.ceil(k / 9)) {
    parts.push(`<path class="ink" d="M${x(v)},${top}v-4"/><text x="${x(v)}" y="${top - 7}" text-anchor="middle">${v}</text>`);
  }
  order.forEach((m, i) => {
    const left = i < half, y = first + row * (left ? i : k - 1 - i) + 8, edge = left ? side : width - side;
    const { colour } = styles.get(board.methods[m]);
    const name = `${fitting(board.methods[m])} <tspan class="value">${mean.get(m).toFixed(2)}</tspan>`;
    parts.push(`<g data-method="${escaped(board.methods[m])}"><path stroke="${colour}" fill="none" stroke-width="1.3" d="M${x(mean.get(m))},${top}V${y}H${edge}"/>` +
      `<text class="name" x="${left ? edge - 5 : edge + 5}" y="${y + 4}" text-anchor="${left ? "end" : "start"}">${name}</text></g>`);
  });
  groups.forEach(([a, b], i) => {
    const y = top + 9 + 6 * i;
    parts.push(`<path class="bar" d="M${x(mean.get(order[a])) - 4},${y}H${x(mean.get(order[b])) + 4}"/>`);
  });
  const height = first + row * half + 6;
  return `${title}<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="critical differences">${parts.join("")}</svg>`;
}

// Method -> how it does beside the best other method shown: "+", "=" or "-", and who that is.
function verdicts(rivals, methods) {
  return new Map(methods.map(m => [m, (rivals[m] ?? []).find(([other]) => methods.includes(other))]));
}

function methodTable(board, part, problems, { mean, order, level }, methods, judged) {
  const rows = methods.map(m => {
    const has = problems.filter(p => p[2 + m]).length, place = order.indexOf(m);
    const rank = place < 0 || mean.size < 2 ? "" : mean.get(m).toFixed(2); // one alone has no rank
    const count = letter => judged.filter(of => of.get(m)?.[1] === letter).length;
    return `<tr data-name="${escaped(board.methods[m])}"><td class="words">${escaped(board.methods[m])}</td>` +
      `<td>${place >= 0 && place <= level ? `<b>${rank}</b>` : rank}</td><td>${has < problems.length ? `${has} of ` : ""}${problems.length}</td>` +
      `<td>${(100 * part.solved[m].at(-1)).toFixed(1)} %</td>` +
      `<td class="better">${count("+") || ""}</td><td>${count("=") || ""}</td><td class="worse">${count("-") || ""}</td>` +
      `<td>${escaped(part.beside[m])}</td><td>${escaped(part.seconds[m])}</td></tr>`;
  });
  return `<tr><th class="words">method</th><th>mean rank</th><th>problems</th><th>targets solved</th><th>functions better</th>` +
    `<th>level</th><th>worse</th><th>${escaped(board.reference)} beside it, functions</th><th>seconds per suggestion</th></tr>${rows.join("")}`;
}

function functionTable(board, functions, ranked, methods, judged) {
  const rows = functions.map((f, i) => {
    const { mean, n } = ranking(board, f.problems, ranked);
    const cells = methods.map(m => {
      const [rival, letter] = judged[i].get(m) ?? [];
      const [kind, sign] = { "+": ["better", "▲ "], "-": ["worse", "▼ "] }[letter] ?? ["", ""];
      const beside = rival === undefined ? "" : ` title="beside ${escaped(board.methods[rival])}"`;
      return `<td class="${kind}"${beside}>${sign}${n && mean.has(m) ? mean.get(m).toFixed(1) : ""}</td>`;
    });
    return `<tr data-function="${f.name}"><td class="words">${escaped(f.name)}<small>${escaped(f.title)}</small></td>${cells.join("")}</tr>`;
  });
  return `<tr><th class="words">function</th>${methods.map(m => `<th>${escaped(board.methods[m])}</th>`).join("")}</tr>${rows.join("")}`;
}

for (const data of document.querySelectorAll("script.board")) scoreboard(data.parentElement, JSON.parse(data.textContent));
