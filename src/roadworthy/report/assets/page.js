/* The page works without this file; with it the curves can be hovered, zoomed and switched. */
(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var chart = document.getElementById("chart");
  var narrow = window.matchMedia("(max-width: 40rem)");
  var variable = window.roadworthy.variable;

  function all(selector) { return Array.prototype.slice.call(document.querySelectorAll(selector)); }
  function checked(id) { var box = document.getElementById(id); return !!box && box.checked; }
  var printing = false;
  function readout() {
    if (printing) { return data.headline; } // the picture that is printed shows it
    return chosen("readout", data.headline);
  }

  function chosen(name, other) {
    var input = document.querySelector('input[name="' + name + '"]:checked');
    return input ? input.value : other;
  }
  function orders() {
    var which = chosen("order", "both");
    return data.orders.map(function (order, o) { return o; }).filter(function (o) {
      return which === "both" || data.orders[o].key === which;
    });
  }
  /* the mean over the views that count, or one of them; a readout without curves of each shows the mean */
  function view() { return data.readouts[readout()].views.length ? Number(chosen("view", "0")) : 0; }
  function curves() {
    var found = data.readouts[readout()];
    return view() ? found.views[view() - 1] : found;
  }
  function viewLabel() { return view() ? data.views[view()].label : data.readouts[readout()].mean; }
  function shownMethods() { return all('input[name="method"]').map(function (box) { return box.checked; }); }

  function clear(colour, alpha) {
    var value = parseInt(colour.slice(1), 16);
    return "rgba(" + [value >> 16, (value >> 8) & 255, value & 255, alpha].join(",") + ")";
  }

  function at(values, places) { return places.map(function (i) { return values[i]; }); }

  function band(low, high) { return low === null ? "not known" : low.toFixed(3) + " to " + high.toFixed(3); }

  function traces() {
    var drawn = curves(), bands = checked("bands"), kept = checked("kept"), found = [];
    var shade = variable("--shown") === "dark" ? "dark" : "light";
    var shown = shownMethods();
    orders().forEach(function (o, place) {
      var order = data.orders[o], axis = place ? String(place + 1) : "";
      var x = data.fractions.map(function (p) { return kept && order.key === "lerf" ? 1 - p : p; });
      data.methods.forEach(function (method, m) {
        if (!shown[m]) { return; }
        var low = drawn.low[m][o], high = drawn.high[m][o];
        var known = low.map(function (v, i) { return i; }).filter(function (i) { return low[i] !== null; });
        if (bands) {
          found.push({
            x: at(x, known).concat(at(x, known).reverse()), y: at(high, known).concat(at(low, known).reverse()),
            fill: "toself", mode: "lines",
            fillcolor: clear(method[shade], 0.15), line: { width: 0 }, hoverinfo: "skip", showlegend: false,
            xaxis: "x" + axis, yaxis: "y" + axis
          });
        }
        found.push({
          x: x, y: drawn.value[m][o], name: method.name, mode: "lines+markers", showlegend: false,
          line: { color: method[shade], dash: method.dash, width: 2 }, marker: { symbol: method.marker, size: 7 },
          customdata: data.fractions.map(function (p, i) { return [p, data.removed[i], band(low[i], high[i])]; }),
          hovertemplate: "<b>%{fullData.name}</b><br>%{customdata[0]:.1%} removed (%{customdata[1]} units)" +
            "<br>%{y:.3f}, band %{customdata[2]}<extra></extra>",
          xaxis: "x" + axis, yaxis: "y" + axis
        });
      });
    });
    return found;
  }

  function layout(stacked) {
    var shown = data.readouts[readout()], kept = checked("kept"), drawn = orders(), count = drawn.length;
    var fg = variable("--fg"), line = variable("--line"), muted = variable("--muted");
    var made = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: fg, size: 13 },
      margin: { l: 56, r: 12, t: stacked ? 64 : 34, b: 48 }, hovermode: "closest", dragmode: stacked ? false : "zoom",
      hoverlabel: { bgcolor: variable("--panel"), bordercolor: line, font: { color: fg }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: variable("--accent") }, annotations: [], shapes: []
    };
    drawn.forEach(function (position, o) {
      var order = data.orders[position], axis = o ? String(o + 1) : "", gap = 0.03;
      var part = [o / count + (o ? gap : 0), (o + 1) / count - (o < count - 1 ? gap : 0)];
      var turned = kept && order.key === "lerf";
      var low = stacked && count > 1 ? 1 - part[1] + (o ? 0 : 0.05) : 0, high = stacked && count > 1 ? 1 - part[0] - (o ? 0.05 : 0) : 1;
      made["xaxis" + axis] = {
        domain: stacked ? [0, 1] : part, anchor: "y" + axis, gridcolor: line, zeroline: false, linecolor: muted,
        title: { text: turned ? "share kept" : "share removed", standoff: 6, font: { size: 13 } }, tickformat: ".0%", range: [-0.02, 1.02]
      };
      made["yaxis" + axis] = {
        domain: [low, high], anchor: "x" + axis, gridcolor: line, zeroline: false, linecolor: muted,
        title: { text: o && !stacked ? "" : shown.name, font: { size: 13 } }, showticklabels: !o || stacked
      };
      if (o) { made["yaxis" + axis].matches = "y"; }
      made.annotations.push({
        text: "<b>" + order.title + "</b> (" + order.better + ")", showarrow: false, xref: "x" + axis + " domain",
        yref: "y" + axis + " domain", x: 0, y: 1, yanchor: "bottom", xanchor: "left", font: { size: 13 }
      });
      if (shown.chance !== null) {
        made.shapes.push({
          type: "line", xref: "x" + axis + " domain", yref: "y" + axis, x0: 0, x1: 1, y0: shown.chance, y1: shown.chance,
          line: { color: muted, width: 1, dash: "dash" }
        });
        made.annotations.push({
          text: "chance", showarrow: false, xref: "x" + axis + " domain", yref: "y" + axis, x: 0.01, xanchor: "left",
          y: shown.chance, yanchor: "bottom", font: { size: 11, color: muted }
        });
      }
    });
    return made;
  }

  var config = {
    responsive: true, displaylogo: false,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]]
  };
  function draw() { if (window.Plotly && chart) { window.Plotly.react(chart, traces(), layout(narrow.matches), config); } }

  /* a picture has no switches beside it that say which line is which: give it a legend */
  function picture() {
    var made = layout(false), lines = traces();
    lines.forEach(function (line) { line.showlegend = line.hoverinfo !== "skip" && line.xaxis === "x"; });
    made.showlegend = true;
    made.legend = { orientation: "h", y: -0.18, yanchor: "top" };
    made.paper_bgcolor = variable("--bg");
    if (data.views.length) {
      made.title = { text: view() ? data.views[view()].name : viewLabel(), font: { size: 14 }, x: 0.01, xanchor: "left", y: 0.99, yanchor: "top" };
      made.margin.t = 60;
    }
    return { data: lines, layout: made };
  }

  /* the numbers of what is drawn; fraction is the share removed, whatever the axis shows */
  function numbers() {
    var drawn = curves(), shown = shownMethods();
    var rows = [["method", "order", "fraction", "value", "low", "high", "readout", "view"]];
    data.methods.forEach(function (method, m) {
      orders().forEach(function (o) {
        if (!shown[m]) { return; }
        data.fractions.forEach(function (p, i) {
          rows.push([method.label, data.orders[o].key, p, drawn.value[m][o][i], drawn.low[m][o][i], drawn.high[m][o][i],
            readout(), viewLabel()]);
        });
      });
    });
    return rows;
  }

  function quoted(value) {
    var text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  /* rows of texts and numbers as a file; null is an empty cell */
  function saveCsv(file, rows) {
    var text = rows.map(function (row) { return row.map(quoted).join(","); }).join("\r\n") + "\r\n";
    var url = URL.createObjectURL(new Blob([text], { type: "text/csv" })), link = document.createElement("a");
    link.href = url;
    link.download = file;
    link.click();
    window.setTimeout(function () { URL.revokeObjectURL(url); }, 10000);
  }
  window.roadworthy.saveCsv = saveCsv;

  function show() {
    var now = readout(), alone = !data.readouts[now].views.length;
    all('input[name="view"]').forEach(function (input) { input.disabled = alone; });
    all('input[name="view"][value="0"] + span').forEach(function (span) { span.textContent = data.readouts[now].mean; });
    all("[data-readout]").forEach(function (part) { part.hidden = part.getAttribute("data-readout") !== now; });
    draw();
  }

  window.roadworthy.page = data;
  all('input[name="readout"]').forEach(function (input) { input.addEventListener("change", show); });
  all('input[name="method"], input[name="view"], input[name="order"], #bands, #kept').forEach(function (input) { input.addEventListener("change", draw); });
  all("button[data-methods]").forEach(function (button) {
    button.addEventListener("click", function () {
      var which = button.getAttribute("data-methods");
      all('input[name="method"]').forEach(function (box) { box.checked = which === "all"; });
      draw();
    });
  });
  all("button[data-save]").forEach(function (button) {
    button.addEventListener("click", function () {
      if (button.getAttribute("data-save") === "csv") { saveCsv("curves-shown.csv", numbers()); return; }
      window.Plotly.downloadImage(picture(), {
        format: button.getAttribute("data-save"), filename: "curves", width: 1000, height: 560, scale: 2
      });
    });
  });
  window.roadworthy.onTheme(draw);
  narrow.addEventListener("change", draw);
  window.addEventListener("beforeprint", function () { printing = true; show(); });
  window.addEventListener("afterprint", function () { printing = false; show(); });
  show();
})();
