// Small plots as SVG, without a library: one series as bars, or two as lines, with the newest at the right.

import { h, svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 84;
const BASE = HEIGHT - 14;

/** A plot with a title, its latest sum as a headline, and bars or lines. `series` has {name, values, kind}. */
export function plot({ title, headline, series, times, format, stepText }) {
  const most = Math.max(1e-9, ...series.flatMap((each) => each.values.map((value) => value ?? 0)));
  const step = WIDTH / times.length;
  const y = (value) => BASE - ((value ?? 0) / most) * (BASE - 6);
  const shapes = series.flatMap((each) => (each.kind === "line" ? [line(each, step, y)] : bars(each, step, y)));
  const peaks = series.map((each) => {
    const peak = Math.max(0, ...each.values.map((value) => value ?? 0));
    return `${each.name} at most ${format(peak)} ${stepText}`;
  });
  const label = `${title}: ${headline}. ${peaks.join(", ")}.`;
  return h(
    "figure",
    { class: "card plot" },
    h("figcaption", {}, h("span", { class: "muted small" }, title), h("strong", {}, headline)),
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
      svg("line", { x1: 0, x2: WIDTH, y1: BASE, y2: BASE, class: "axis" }),
      ...shapes,
    ),
    h(
      "div",
      { class: "plot-foot small muted" },
      h("span", {}, times[0]),
      h("span", {}, `peak ${format(most < 1e-6 ? 0 : most)}`),
      h("span", {}, "now"),
    ),
  );
}

function bars(series, step, y) {
  return series.values.flatMap((value, index) => {
    if (!value) return [];
    const top = y(value);
    const bar = svg("rect", {
      x: index * step + step * 0.12,
      y: top,
      width: step * 0.76,
      height: Math.max(1, BASE - top),
      rx: Math.min(1.5, step / 4),
      class: `bar ${series.class ?? ""}`,
    });
    return [bar];
  });
}

function line(series, step, y) {
  let path = "";
  let isDrawing = false;
  series.values.forEach((value, index) => {
    if (value === null || value === undefined) {
      isDrawing = false;
      return;
    }
    path += `${isDrawing ? "L" : "M"}${(index * step + step / 2).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!isDrawing) path += "h0.01";
    isDrawing = true;
  });
  return svg("path", { d: path || "M0 0", class: `line ${series.class ?? ""}`, "vector-effect": "non-scaling-stroke" });
}
