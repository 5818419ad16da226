"use strict";
// Charts as SVG from the data in the page, and one legend that hides a method in all of them.

const hidden = new Set(); // methods
const styles = new Map(); // method -> {colour, dash, width}, the same in all charts

const escaped = text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
const short = v => (v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e5) ? v.toExponential(0) : String(+v.toPrecision(3)));

function scale(isLog, [low, high], [start, end]) {
  const of = isLog ? Math.log10 : Number;
  return value => start + ((of(value) - of(low)) / (of(high) - of(low))) * (end - start);
}

function ticks(isLog, [low, high], most) {
  if (isLog) {
    const within = (digits, every) => {
      const found = [];
      for (let e = Math.ceil(Math.floor(Math.log10(low)) / every) * every; 10 ** e <= high; e += every) {
        found.push(...digits.map(digit => +`${digit}e${e}`).filter(v => v >= low && v <= high));
      }
      return found;
    };
    for (const [digits, every] of [[[1, 2, 5], 1], [[1], 1], [[1], 2], [[1], 3], [[1], 5]]) {
      const found = within(digits, every);
      if (found.length > 2 && found.length <= most) return found;
    }
  }
  const size = 10 ** Math.floor(Math.log10((high - low) / most));
  const step = [1, 2, 5, 10].map(s => s * size).find(s => (high - low) / s <= most);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => +((first + i) * step).toPrecision(12));
}

// A chart: {title, note, x: [numbers], log_x, label_x, label_y, log_y, low, high,
//           series: [{name, note, start, mean: [numbers], lower, upper}]}, where mean[i] belongs to x[start + i].
function draw(figure, chart) {
  const width = Math.max(figure.clientWidth, 240), height = Math.round(Math.min(0.68 * width, 330));
  const box = { left: 46, right: width - 14, top: 8, bottom: height - 36 };
  const shown = chart.series.filter(s => s.mean.length);
  const ends = [chart.first ?? Math.min(...shown.map(s => chart.x[s.start])), chart.x.at(-1)];
  const x = scale(chart.log_x, ends, [box.left, box.right]);
  const y = scale(chart.log_y, [chart.low, chart.high], [box.bottom, box.top]);
  const at = (s, values, i) => `${x(chart.x[s.start + i]).toFixed(1)},${Math.max(-50, Math.min(height + 50, y(values[i]))).toFixed(1)}`;
  const line = (s, values) => values.map((_, i) => at(s, values, i));
  const parts = [];
  for (const v of ticks(chart.log_y, [chart.low, chart.high], 6)) {
    parts.push(`<path class="axis" d="M${box.left},${y(v)}H${box.right}"/><text x="${box.left - 6}" y="${y(v) + 4}" text-anchor="end">${short(v)}</text>`);
  }
  for (const v of ticks(chart.log_x, ends, 7)) {
    parts.push(`<path class="axis" d="M${x(v)},${box.bottom}v4"/><text x="${x(v)}" y="${box.bottom + 16}" text-anchor="middle">${short(v)}</text>`);
  }
  parts.push(`<text x="${(box.left + box.right) / 2}" y="${height - 4}" text-anchor="middle">${escaped(chart.label_x)}</text>`);
  const bands = [], curves = [];
  for (const s of shown) {
    const { colour, dash, width: thickness } = styles.get(s.name);
    const off = hidden.has(s.name) ? " off" : "";
    const named = `data-method="${escaped(s.name)}"`;
    if (s.lower) {
      const around = [...line(s, s.upper), ...line(s, s.lower).reverse()];
      bands.push(`<path class="band${off}" ${named} fill="${colour}" d="M${around.join("L")}Z"/>`);
    }
    curves.unshift(`<path class="curve${off}" ${named} stroke="${colour}" stroke-width="${thickness}" stroke-dasharray="${dash}" d="M${line(s, s.mean).join("L")}"/>`);
  }
  const inside = [box.left, box.top, box.right - box.left, box.bottom - box.top]; // which curves do not leave
  const frame = `x="${inside[0]}" y="${inside[1]}" width="${inside[2]}" height="${inside[3]}" viewBox="${inside.join(" ")}"`;
  figure.innerHTML =
    `<figcaption>${escaped(chart.title)}<small>${escaped(chart.note ?? "")}</small></figcaption>` +
    `<svg viewBox="0 0 ${width} ${height}" role="img" aria-label="${escaped(chart.title)}">` +
    `${parts.join("")}<svg ${frame}>${bands.join("")}${curves.join("")}</svg></svg>`;
  figure.onpointermove = event => tip(figure, chart, event, x, y);
  figure.onpointerleave = () => figure.querySelector(".tip")?.remove();
}

function tip(figure, chart, event, x, y) {
  figure.querySelector(".tip")?.remove();
  const svg = figure.querySelector("svg"), place = svg.getBoundingClientRect();
  const left = event.clientX - place.left, top = event.clientY - place.top;
  let best = null;
  for (const s of chart.series) {
    if (hidden.has(s.name)) continue;
    s.mean.forEach((value, i) => {
      const away = 4 * Math.abs(x(chart.x[s.start + i]) - left) + Math.abs(y(value) - top);
      if (!best || away < best.away) best = { away, s, value, at: chart.x[s.start + i] };
    });
  }
  if (!best || best.away > 60) return;
  const box = document.createElement("div");
  box.className = "tip";
  box.textContent = `${best.s.name}${best.s.note ? ` (${best.s.note})` : ""}: ${+best.value.toPrecision(3)} at ${+best.at.toPrecision(3)}`;
  figure.append(box);
  const offset = svg.offsetTop;
  box.style.left = `${Math.max(0, Math.min(left + 12, figure.clientWidth - box.offsetWidth))}px`;
  box.style.top = `${Math.max(0, top + offset - 30)}px`;
}

// Call back whenever the width of an element has changed.
function onWidth(element, callback) {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (element.clientWidth !== width) callback(width = element.clientWidth);
  }).observe(element);
}

// Draw a chart in a figure, in the place of the one before.
function show(figure, chart) {
  if (!figure.chart) onWidth(figure, () => draw(figure, figure.chart));
  figure.chart = chart;
  draw(figure, chart);
}

function legend() {
  const bar = document.getElementById("legend");
  const all = styles.size ? "<button data-all>show all</button>" : "";
  bar.innerHTML = all + [...styles].map(([name, { colour, dash }]) => {
    const key = `<svg viewBox="0 0 24 6"><path d="M0,3H24" stroke="${colour}" stroke-width="3" stroke-dasharray="${dash}"/></svg>`;
    return `<button data-toggle="${escaped(name)}" aria-pressed="true">${key}${escaped(name)}</button>`;
  }).join("");
  bar.onclick = event => {
    const button = event.target.closest("button");
    if (!button) return;
    const name = button.dataset.toggle;
    if (name === undefined) hidden.clear();
    else if (!hidden.delete(name)) hidden.add(name);
    follow();
  };
  bar.ondblclick = event => {
    const name = event.target.closest("button")?.dataset.toggle;
    if (name === undefined) return;
    for (const other of styles.keys()) hidden.add(other);
    hidden.delete(name);
    follow();
  };
}

// Everything that shows methods follows the legend.
function follow() {
  for (const part of document.querySelectorAll("[data-method]")) {
    part.classList.toggle("off", hidden.has(part.dataset.method));
  }
  for (const button of document.querySelectorAll("[data-toggle]")) {
    button.setAttribute("aria-pressed", !hidden.has(button.dataset.toggle));
  }
  document.dispatchEvent(new Event("methods"));
}

for (const data of document.querySelectorAll("script.styles")) {
  for (const [name, style] of Object.entries(JSON.parse(data.textContent))) styles.set(name, style);
}
legend();
for (const data of document.querySelectorAll("script.charts")) {
  for (const chart of JSON.parse(data.textContent)) {
    const figure = document.createElement("figure");
    data.parentElement.append(figure);
    show(figure, chart);
  }
}
