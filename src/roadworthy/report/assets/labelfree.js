/* The page works without this file; with it the curve can be hovered and zoomed. */
(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var chart = document.getElementById("chart");
  var variable = window.roadworthy.variable;
  var narrow = window.matchMedia("(max-width: 40rem)");

  function known(curve) {
    return curve.x.map(function (v, i) { return i; }).filter(function (i) { return curve.y[i] !== null; });
  }
  function at(values, places) { return places.map(function (i) { return values[i]; }); }

  function traces() {
    var shade = variable("--shown") === "dark" ? "dark" : "light", found = [];
    data.curves.forEach(function (curve) {
      var places = known(curve), x = at(curve.x, places), y = at(curve.y, places);
      if (curve.low) {
        found.push({
          x: x.concat(x.slice().reverse()), y: at(curve.high, places).concat(at(curve.low, places).reverse()),
          fill: "toself", mode: "lines", line: { width: 0 }, fillcolor: curve[shade], opacity: 0.15,
          hoverinfo: "skip", showlegend: false
        });
      }
      found.push({
        x: x, y: y, name: curve.name, mode: "lines", line: { color: curve[shade], dash: curve.dash, width: 2 },
        customdata: at(curve.thresholds, places),
        hovertemplate: "<b>%{fullData.name}</b><br>%{x:.0%} of the samples, scores from %{customdata:.3f}" +
          "<br>reliability %{y:.3f}<extra></extra>"
      });
    });
    return found;
  }

  function axis(title, format) {
    return {
      title: { text: title, standoff: 6 }, range: [-0.02, 1.02], tickformat: format, zeroline: false,
      gridcolor: variable("--line"), linecolor: variable("--muted")
    };
  }

  function draw() {
    if (!window.Plotly || !chart) { return; }
    window.Plotly.react(chart, traces(), {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: variable("--fg"), size: 13 },
      margin: { l: 56, r: 12, t: 12, b: 48 }, hovermode: "closest", dragmode: narrow.matches ? false : "zoom",
      hoverlabel: { bgcolor: variable("--panel"), bordercolor: variable("--line"), font: { color: variable("--fg") } },
      xaxis: axis("coverage: share of the samples kept", ".0%"), yaxis: axis("reliability", ".1f"),
      legend: { orientation: "h", y: -0.2, yanchor: "top" }, showlegend: true
    }, { responsive: true, displaylogo: false, modeBarButtons: [["zoom2d", "pan2d", "resetScale2d"]] });
  }

  Array.prototype.slice.call(document.querySelectorAll("button[data-save]")).forEach(function (button) {
    button.addEventListener("click", function () {
      window.Plotly.downloadImage(chart, {
        format: button.getAttribute("data-save"), filename: "curves", width: 900, height: 560, scale: 2
      });
    });
  });
  window.roadworthy.onTheme(draw);
  narrow.addEventListener("change", draw);
  draw();
})();
