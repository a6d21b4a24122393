/* The page works without this file; with it the runs can be hovered, zoomed and switched. */
(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var chart = document.getElementById("chart");
  var variable = window.roadworthy.variable;
  var narrow = window.matchMedia("(max-width: 40rem)");

  function all(selector) { return Array.prototype.slice.call(document.querySelectorAll(selector)); }
  function view() {
    var chosen = document.querySelector('input[name="view"]:checked');
    return data.views[chosen ? chosen.value : "scores"];
  }
  function shown(name) {
    return all('input[name="run"]').some(function (box) { return box.value === name && box.checked; });
  }
  function band(low, high) { return low === null ? "interval not known" : low.toFixed(3) + " to " + high.toFixed(3); }

  function height() { return 150 + view().groups.length * (18 + 16 * view().runs.length); }

  function traces() {
    var now = view(), shade = variable("--shown") === "dark" ? "dark" : "light";
    return now.runs.filter(function (run) { return shown(run.key); }).map(function (run) {
      var places = run.value.map(function (v, i) { return i; }).filter(function (i) { return run.value[i] !== null; });
      function reach(ends, sign) {
        return places.map(function (i) { return ends[i] === null ? 0 : Math.max(0, sign * (ends[i] - run.value[i])); });
      }
      return {
        x: places.map(function (i) { return run.value[i]; }),
        y: places.map(function (i) { return now.groups.indexOf(run.group[i]) + run.dodge; }),
        error_x: { type: "data", symmetric: false, array: reach(run.high, 1), arrayminus: reach(run.low, -1), width: 3 },
        name: run.name, mode: "markers", marker: { color: run[shade], symbol: run.marker, size: 9 },
        customdata: places.map(function (i) { return [run.group[i], band(run.low[i], run.high[i])]; }),
        hovertemplate: "<b>%{fullData.name}</b><br>%{customdata[0]}: %{x:.3f}<br>%{customdata[1]}<extra></extra>"
      };
    });
  }

  function layout() {
    var now = view(), fg = variable("--fg"), line = variable("--line"), muted = variable("--muted");
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: fg, size: 13 },
      margin: { l: 8, r: 12, t: 8, b: 48 }, hovermode: "closest", dragmode: narrow.matches ? false : "zoom",
      hoverlabel: { bgcolor: variable("--panel"), bordercolor: line, font: { color: fg }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: variable("--accent") },
      xaxis: {
        title: { text: narrow.matches ? now.short : now.title, standoff: 6, font: { size: 13 } }, gridcolor: line, zeroline: true,
        zerolinecolor: muted, linecolor: muted, automargin: true
      },
      yaxis: {
        tickvals: now.groups.map(function (g, i) { return i; }), ticktext: now.groups, automargin: true,
        range: [now.groups.length - 0.5, -0.5], showgrid: false, zeroline: false, linecolor: muted
      },
      height: height(), showlegend: true, legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }
    };
  }

  function draw() {
    if (!window.Plotly || !chart) { return; }
    chart.style.height = height() + "px";
    window.Plotly.react(chart, traces(), layout(), {
      responsive: true, displaylogo: false,
      modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]]
    });
  }

  all('input[name="view"], input[name="run"]').forEach(function (input) { input.addEventListener("change", draw); });
  all("button[data-save]").forEach(function (button) {
    button.addEventListener("click", function () {
      var made = layout();
      made.paper_bgcolor = variable("--bg");
      window.Plotly.downloadImage({ data: traces(), layout: made }, {
        format: button.getAttribute("data-save"), filename: "comparison", width: 900, height: height(), scale: 2
      });
    });
  });
  window.roadworthy.onTheme(draw);
  narrow.addEventListener("change", draw);
  draw();
})();
