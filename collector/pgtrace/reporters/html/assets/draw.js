// What is drawn into a chart's canvas: bars, curves, lines. Each function draws the `layers` that are
// shown, and returns how many marks that were. `u` is uPlot's chart, which knows where numbers lie.
"use strict";
const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// A bar: filled, or an outline with hatching, so that two can lie over each other.
function bar(ctx, layer, x, y, width, height) {
  ctx.fillStyle = ctx.strokeStyle = colour(layer.colour);
  if (!layer.outlined) return ctx.fillRect(x, y, width, height);
  const dpr = devicePixelRatio, step = 11 * dpr;
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.beginPath();
  for (let at = Math.floor((x - height) / step) * step; at < x + width; at += step) {
    ctx.moveTo(at, y + height);
    ctx.lineTo(at + height, y);
  }
  // Lines of paper below those of colour, to be seen on what is filled as well
  ctx.strokeStyle = colour("paper");
  ctx.lineWidth = 3.5 * dpr;
  ctx.stroke();
  ctx.strokeStyle = colour(layer.colour);
  ctx.lineWidth = dpr;
  ctx.stroke();
  ctx.restore();
  for (const [name, wide] of [["paper", 4], [layer.colour, 1.5]]) {
    ctx.strokeStyle = colour(name);
    ctx.lineWidth = wide * dpr;
    ctx.strokeRect(x, y, width, height);
  }
}

// A curve's, for a legend.
function stroke(ctx, layer, x, y, width, height) {
  ctx.strokeStyle = colour(layer.colour);
  ctx.lineWidth = 2;
  ctx.setLineDash(layer.outlined ? [4, 3] : []);
  ctx.beginPath();
  ctx.moveTo(x, y + height / 2);
  ctx.lineTo(x + width, y + height / 2);
  ctx.stroke();
}

// How many: a line of steps for each layer, which hides no other. On a logarithmic axis a stack would
// show nothing but its lowest part truly. A bucket without any interrupts the line.
function counts(u, chart, layers) {
  const { ctx } = u, dpr = devicePixelRatio;
  let steps = 0;
  ctx.lineWidth = 3 * dpr;
  for (const layer of layers) {
    ctx.strokeStyle = colour(layer.colour);
    ctx.setLineDash(layer.outlined ? [7 * dpr, 4 * dpr] : []);
    ctx.beginPath();
    layer.counts.forEach((count, k) => {
      if (!count) return;
      const y = u.valToPos(count, "y", true);
      const from = u.valToPos(k, "x", true), upto = u.valToPos(k + 1, "x", true);
      if (layer.counts[k - 1]) ctx.lineTo(from, y);
      else ctx.moveTo(from, y);
      ctx.lineTo(upto, y);
      steps++;
    });
    ctx.stroke();
  }
  ctx.setLineDash([]);
  return steps;
}

// Shares of the time: these can be stacked. Groups stand side by side in a bucket.
function shares(u, chart, layers) {
  let bars = 0;
  const groups = 1 + Math.max(...chart.layers.map((layer) => layer.group));
  for (let k = 0; k < chart.edges.length - 1; k++) {
    const below = Array(groups).fill(0);
    for (const layer of layers.filter((l) => l.shares[k])) {
      const wide = 0.92 / groups, x = k + 0.04 + wide * layer.group;
      const from = u.valToPos(x, "x", true), upto = u.valToPos(x + wide, "x", true);
      const bottom = u.valToPos(below[layer.group], "y", true);
      below[layer.group] += layer.shares[k];
      const top = u.valToPos(below[layer.group], "y", true);
      bar(u.ctx, layer, from, top, upto - from, bottom - top);
      bars++;
    }
  }
  return bars;
}

function curves(u, chart, layers) {
  let lines = 0;
  for (const layer of layers.filter((l) => l.points.length)) {
    u.ctx.strokeStyle = colour(layer.colour);
    u.ctx.lineWidth = (layer.colour === "all" ? 2.5 : 2) * devicePixelRatio;
    u.ctx.setLineDash(layer.outlined ? [6 * devicePixelRatio, 4 * devicePixelRatio] : []);
    u.ctx.beginPath();
    for (const [x, y] of layer.points) {
      u.ctx.lineTo(u.valToPos(x, "x", true), u.valToPos(y || 1, "y", true));
    }
    u.ctx.stroke();
    lines++;
  }
  u.ctx.setLineDash([]);
  return lines;
}

// Lines with their points, over places that are marked: where they cross, or what may be set.
function lines(u, chart, layers, number) {
  const { ctx, bbox } = u, { marks, band } = chart.panels[number], dpr = devicePixelRatio;
  if (band) {
    const [from, upto] = band.map((x) => u.valToPos(x, "x", true));
    ctx.fillStyle = colour("mark");
    ctx.fillRect(from, bbox.top, Math.max(3, upto - from), bbox.height);
  }
  ctx.font = `${11 * dpr}px system-ui, sans-serif`;
  marks.forEach(([x, name], at) => {
    const place = u.valToPos(x, "x", true);
    ctx.strokeStyle = ctx.fillStyle = colour("dim");
    ctx.lineWidth = dpr;
    ctx.setLineDash([3 * dpr, 3 * dpr]);
    ctx.beginPath();
    ctx.moveTo(place, bbox.top);
    ctx.lineTo(place, bbox.top + bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
    const left = place > bbox.left + bbox.width * 0.7;
    ctx.textAlign = left ? "right" : "left";
    ctx.fillText(name, place + (left ? -4 : 4) * dpr, bbox.top + (11 + 13 * at) * dpr);
  });
  const own = layers.filter((layer) => layer.panel === number);
  for (const layer of own) {
    ctx.fillStyle = ctx.strokeStyle = colour(layer.colour);
    ctx.lineWidth = 1.5 * dpr;
    layer.points.forEach(([x, y], at) => {
      const place = u.valToPos(x, "x", true);
      ctx.beginPath();
      ctx.arc(place, u.valToPos(y, "y", true), 3 * dpr, 0, 7);
      ctx.fill();
      if (!layer.intervals[at]) return;
      const [low, high] = layer.intervals[at].map((end) => u.valToPos(end, "y", true));
      ctx.beginPath();
      for (const end of [low, high]) {
        ctx.moveTo(place - 4 * dpr, end);
        ctx.lineTo(place + 4 * dpr, end);
      }
      ctx.moveTo(place, low);
      ctx.lineTo(place, high);
      ctx.stroke();
    });
  }
  return curves(u, chart, own);
}
