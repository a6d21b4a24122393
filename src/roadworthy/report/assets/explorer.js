/* Every sample by itself: a list to filter and to sort, and what each removal did to the sample chosen. */
(function () {
  "use strict";
  var box = document.getElementById("explorer");
  if (!box) { return; }
  var page = window.roadworthy.page, variable = window.roadworthy.variable;
  var narrow = window.matchMedia("(max-width: 40rem)");
  var PAGE = 20, FEW = 20;
  var data, codes, decoded = [], known = {}, found = [], at = 0, current = -1;
  var sort = { key: "apart", down: true };
  var collator = new Intl.Collator(undefined, { numeric: true });

  function get(id) { return document.getElementById(id); }
  function all(selector) { return Array.prototype.slice.call(document.querySelectorAll(selector)); }
  function number(id) { return Number(get(id).value); }

  /* an element with text, which is never read as HTML */
  function made(tag, text, attributes) {
    var element = document.createElement(tag);
    if (text !== undefined) { element.textContent = text; }
    Object.keys(attributes || {}).forEach(function (key) { element.setAttribute(key, attributes[key]); });
    return element;
  }
  function holding(tag, children, attributes) {
    var element = made(tag, undefined, attributes);
    children.forEach(function (child) { element.append(child); });
    return element;
  }
  function plain(value, digits) {
    var text = value.toFixed(digits === undefined ? 3 : digits);
    return (Number(text) ? text : text.replace("-", "")).replace("-", "\u2212");
  }
  /* plotly reads a subset of HTML in every label */
  function inChart(text) { return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;"); }
  function percent(share) { return (100 * share).toFixed(1).replace(/\.0$/, "") + "\u00a0%"; }
  function count(value) { return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f"); }

  /* -- numbers -- */
  function bytes(text) {
    var raw = window.atob(text), values = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) { values[i] = raw.charCodeAt(i); }
    return values;
  }
  function layer() {
    var place = data.layers.length > 1 ? number("find-layer") : 0, packed = data.layers[place];
    if (!decoded[place]) {
      decoded[place] = {
        place: place, most: packed.most, scale: packed.scale, bits: packed.bits,
        hits: bytes(packed.hits), probability: bytes(packed.probability)
      };
    }
    return decoded[place];
  }
  function cells() { return 1 + page.methods.length * page.orders.length * (page.fractions.length - 1); }
  function cell(m, o, p) {
    return p ? p + (m * page.orders.length + o) * (page.fractions.length - 1) : 0;
  }
  function hits(from, s, place) {
    var i = s * cells() + place, per = 8 / from.bits;
    return ((from.hits[Math.floor(i / per)] >> (from.bits * (i % per))) & ((1 << from.bits) - 1)) / from.scale;
  }
  function probability(from, s, place) { return from.probability[s * cells() + place] / 255; }
  function code(s, which) {
    var i = (3 * s + which) * data.width, value = 0;
    for (var b = data.width - 1; b >= 0; b--) { value = 256 * value + codes[i + b]; }
    return value;
  }
  function label(s) { return code(s, data.labelled ? 0 : 1); }

  /* scores of every sample and method, and how far the methods are apart; worked out once for each choice */
  function scores() {
    var from = layer(), readout = data.readouts[number("find-readout")].key, key = from.place + readout;
    if (!known[key]) {
      var value = readout === "top1" ? hits : probability, n = data.ids.length, methods = page.methods.length;
      var own = new Float32Array(n * methods), apart = new Float32Array(n);
      var real = page.methods.map(function (_, m) { return m; }).filter(function (m) { return !data.controls[m]; });
      if (real.length < 2) { real = page.methods.map(function (_, m) { return m; }); }
      for (var s = 0; s < n; s++) {
        for (var m = 0; m < methods; m++) {
          var sum = 0;
          for (var o = 0; o < page.orders.length; o++) {
            for (var p = 0; p < page.fractions.length; p++) { sum += data.weights[o][p] * value(from, s, cell(m, o, p)); }
          }
          own[s * methods + m] = sum;
        }
        var low = Infinity, high = -Infinity;
        for (var r = 0; r < real.length; r++) {
          low = Math.min(low, own[s * methods + real[r]]);
          high = Math.max(high, own[s * methods + real[r]]);
        }
        apart[s] = high - low;
      }
      known[key] = { own: own, apart: apart };
    }
    return known[key];
  }

  function rightness(share, most) {
    if (share === 1) { return "right"; }
    if (share === 0) { return "wrong"; }
    return "right in " + (most <= FEW ? Math.round(share * most) + " of " + most : percent(share));
  }

  /* -- the list -- */
  function columns() {
    var from = layer(), worked = scores(), methods = page.methods.length;
    var list = [{ key: "id", name: "sample", text: true, value: function (s) { return data.ids[s]; } }];
    if (data.labelled) { list.push({ key: "label", name: "label", text: true, value: function (s) { return data.names[code(s, 0)]; } }); }
    list.push({ key: "answer", name: "answer", text: true, value: function (s) { return data.names[code(s, 1)]; } });
    if (data.labelled) {
      list.push({
        key: "right", name: "intact input", value: function (s) { return hits(from, s, 0); },
        shown: function (s) { return rightness(hits(from, s, 0), from.most); }
      });
    }
    list.push({ key: "probability", name: "probability", digits: 2, value: function (s) { return probability(from, s, 0); } });
    if (methods > 1) { list.push({ key: "apart", name: "disagreement", value: function (s) { return worked.apart[s]; } }); }
    page.methods.forEach(function (method, m) {
      list.push({ key: "m" + m, name: method.label, value: function (s) { return worked.own[s * methods + m]; } });
    });
    return list;
  }

  function find() {
    var from = layer(), text = get("find-id").value.trim().toLowerCase(), right = number("find-right");
    var wanted = number("find-class"), kept = get("find-kept").checked;
    found = [];
    for (var s = 0; s < data.ids.length; s++) {
      var share = hits(from, s, 0);
      if (text && data.ids[s].toLowerCase().indexOf(text) < 0) { continue; }
      if (wanted >= 0 && label(s) !== wanted) { continue; }
      if (right && right !== (share === 1 ? 1 : share === 0 ? 2 : 3)) { continue; }
      if (kept && data.kept[s] === undefined) { continue; }
      found.push(s);
    }
    var column = columns().filter(function (one) { return one.key === sort.key; })[0];
    var values = {};
    found.forEach(function (one) { values[one] = column.value(one); });
    found.sort(function (a, b) {
      var order = column.text ? collator.compare(values[a], values[b]) : values[a] - values[b];
      return (sort.down ? -order : order) || a - b;
    });
    at = 0;
    list();
  }

  function head(list) {
    return holding("tr", list.map(function (column) {
      var chosen = sort.key === column.key, button = made("button", undefined, { type: "button" });
      button.append(made("bdi", column.name), made("span", chosen ? (sort.down ? "\u25bc" : "\u25b2") : "\u2195", { "aria-hidden": "true" }));
      button.addEventListener("click", function () {
        sort = { key: column.key, down: chosen ? !sort.down : !column.text };
        find();
        all("#sample-head button")[list.map(function (one) { return one.key; }).indexOf(column.key)].focus();
      });
      var cellOf = holding("th", [button], { scope: "col" });
      if (column.text) { cellOf.className = "left"; }
      if (chosen) { cellOf.setAttribute("aria-sort", sort.down ? "descending" : "ascending"); }
      return cellOf;
    }));
  }

  function row(list, s) {
    return holding("tr", list.map(function (column) {
      if (column.key === "id") {
        var button = holding("button", [made("bdi", data.ids[s])], { type: "button", "data-row": s });
        if (s === current) { button.setAttribute("aria-current", "true"); }
        if (data.kept[s] !== undefined) { button.append(" ", made("small", "pictures", { "class": "muted" })); }
        button.addEventListener("click", function () { open(s, true); });
        return holding("th", [button], { scope: "row" });
      }
      if (column.text) { return holding("td", [made("bdi", column.value(s))], { "class": "left" }); }
      if (!column.shown) { return made("td", plain(column.value(s), column.digits)); }
      var share = column.value(s);
      return made("td", (share === 1 ? "\u2713 " : share === 0 ? "\u2717 " : "") + column.shown(s), {
        "class": "left" + (share === 1 ? " good" : share === 0 ? " bad" : "")
      });
    }));
  }

  function list() {
    var pages = Math.max(1, Math.ceil(found.length / PAGE)), shown = found.slice(at, at + PAGE), named = columns();
    get("sample-head").replaceChildren(head(named));
    get("sample-rows").replaceChildren.apply(get("sample-rows"), shown.map(function (s) { return row(named, s); }));
    var range = shown.length ? ": " + count(at + 1) + " to " + count(at + shown.length) + " below" : "; clear a filter";
    get("found").textContent = count(found.length) + " of " + count(data.ids.length) + " samples found" + range;
    get("page-at").textContent = "page " + count(at / PAGE + 1) + " of " + count(pages);
    get("page-first").disabled = get("page-before").disabled = at === 0;
    get("page-last").disabled = get("page-after").disabled = at + PAGE >= found.length;
    get("list-csv").disabled = !found.length;
    step();
  }

  function turn(to) {
    at = Math.min(Math.max(0, to), Math.max(0, Math.floor((found.length - 1) / PAGE) * PAGE));
    list();
  }

  function saveList() {
    var named = columns();
    window.roadworthy.saveCsv("samples-found.csv", [named.map(function (column) { return column.name; })].concat(
      found.map(function (s) { return named.map(function (column) { return column.value(s); }); })
    ));
  }

  /* -- one sample -- */
  function open(s, move) {
    current = s;
    var from = layer(), target = data.names[code(s, 2)], about = get("sample-about"), share = hits(from, s, 0);
    get("sample").hidden = false;
    get("sample-name").replaceChildren("Sample ", made("bdi", data.ids[s]));
    about.replaceChildren();
    if (data.labelled) { about.append("Label ", made("bdi", data.names[code(s, 0)]), " \u00b7 "); }
    about.append("answer on the intact input ", made("bdi", data.names[code(s, 1)]));
    if (data.labelled) { about.append(" (" + rightness(share, from.most) + ")"); }
    about.append(" \u00b7 probability of ", made("bdi", target), ": " + plain(probability(from, s, 0), 2));
    var several = from.most > 1 ? "; how many of " + from.most + " " + data.units + " are right, where they differ" : "";
    get("sample-caption").replaceChildren(
      "Probability of ", made("bdi", target), " by the share removed, and the answer: \u2713 ",
      data.labelled ? "right, \u2717 wrong" : "as without removal, \u2717 changed", several,
      ". The marker of a " + (data.labelled ? "wrong" : "changed") + " answer is open in the chart. Untick a method to leave it out."
    );
    shares(s);
    pictures(s);
    draw();
    all("#sample-rows button").forEach(function (button) {
      if (Number(button.getAttribute("data-row")) === s) { button.setAttribute("aria-current", "true"); } else { button.removeAttribute("aria-current"); }
    });
    step();
    if (move) {
      get("sample-name").focus({ preventScroll: true });
      get("sample").scrollIntoView({ block: "start" });
    }
  }

  function step() {
    var place = found.indexOf(current);
    get("sample-before").disabled = place <= 0;
    get("sample-after").disabled = place < 0 || place >= found.length - 1;
  }

  function walk(by) {
    var place = found.indexOf(current) + by;
    if (place < 0 || place >= found.length) { return; }
    at = Math.floor(place / PAGE) * PAGE;
    current = found[place];
    list();
    open(current, false);
  }

  function off() {
    var hidden = {};
    all("#share-rows input").forEach(function (input) { hidden[input.value] = !input.checked; });
    return hidden;
  }

  function shares(s) {
    var from = layer(), hidden = off(), swatches = all('input[name="method"] + .swatch');
    var heads = [made("th", "method", { scope: "col", "class": "left" }), made("th", "intact", { scope: "col" })];
    page.orders.forEach(function (order) {
      page.fractions.slice(1).forEach(function (p, i) {
        heads.push(holding("th", [order.short, made("br"), percent(p)], { scope: "col", "class": i ? "" : "first-lerf" }));
      });
    });
    get("share-head").replaceChildren(holding("tr", heads));
    var rows = page.methods.map(function (method, m) {
      var input = made("input", undefined, { type: "checkbox", value: m });
      input.checked = !hidden[m];
      input.addEventListener("change", draw);
      var named = holding("label", [input, swatches[m].cloneNode(true), made("bdi", method.label)]);
      var row = holding("tr", [holding("th", [named], { scope: "row" }), answered(from, s, 0)]);
      page.orders.forEach(function (_, o) {
        for (var p = 1; p < page.fractions.length; p++) {
          var shown = answered(from, s, cell(m, o, p));
          if (p === 1) { shown.className = "first-lerf"; }
          row.append(shown);
        }
      });
      return row;
    });
    get("share-rows").replaceChildren.apply(get("share-rows"), rows);
  }

  function answered(from, s, place) {
    var share = hits(from, s, place), words = data.labelled ? ["wrong", "right"] : ["changed", "as without removal"];
    var shown = made("td", plain(probability(from, s, place), 2) + " ");
    if (share === 0 || share === 1) {
      shown.append(
        made("span", share ? "\u2713" : "\u2717", { "aria-hidden": "true", "class": share ? "good" : "bad" }),
        made("span", words[share], { "class": "sr" })
      );
    } else {
      shown.append(made("small", from.most <= FEW ? Math.round(share * from.most) + " of " + from.most : percent(share)));
    }
    return shown;
  }

  function pictures(s) {
    var kept = data.kept[s] === undefined ? null : document.querySelector('details[data-kept="' + data.kept[s] + '"]');
    var copied = kept ? Array.prototype.slice.call(kept.cloneNode(true).children, 1) : [];
    if (kept && data.pictured) { copied.unshift(made("p", data.pictured, { "class": "muted small" })); }
    var none = Object.keys(data.kept).length ? "No pictures of this sample were kept; the list marks those with pictures." : "";
    get("sample-pictures").replaceChildren.apply(get("sample-pictures"), kept ? copied : none ? [made("p", none, { "class": "muted small" })] : []);
  }

  function traces(s) {
    var from = layer(), shade = variable("--shown") === "dark" ? "dark" : "light", hidden = off(), lines = [];
    page.orders.forEach(function (order, o) {
      page.methods.forEach(function (method, m) {
        if (hidden[m]) { return; }
        var places = page.fractions.map(function (_, p) { return cell(m, o, p); });
        var right = places.map(function (place) { return hits(from, s, place); });
        lines.push({
          x: page.fractions, y: places.map(function (place) { return probability(from, s, place); }), name: method.name,
          mode: "lines+markers", showlegend: false, line: { color: method[shade], dash: method.dash, width: 1.5 },
          marker: { size: 8, symbol: right.map(function (share) { return method.marker + (share < 0.5 ? "-open" : ""); }) },
          customdata: right.map(function (share) { return data.labelled ? rightness(share, from.most) : share < 0.5 ? "changed" : "as without removal"; }),
          hovertemplate: "<b>%{fullData.name}</b><br>%{x:.1%} removed<br>%{y:.2f}, %{customdata}<extra></extra>",
          xaxis: "x" + (o ? o + 1 : ""), yaxis: "y" + (o ? o + 1 : "")
        });
      });
    });
    return lines;
  }

  function layout(stacked) {
    var orders = page.orders.length, line = variable("--line"), fg = variable("--fg"), muted = variable("--muted");
    var around = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: fg, size: 13 },
      margin: { l: 56, r: 12, t: 34, b: 48 }, hovermode: "closest", dragmode: stacked ? false : "zoom",
      hoverlabel: { bgcolor: variable("--panel"), bordercolor: line, font: { color: fg }, align: "left" },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: muted, activecolor: variable("--accent") }, annotations: []
    };
    page.orders.forEach(function (order, o) {
      var axis = o ? String(o + 1) : "", first = o / orders + (o ? 0.03 : 0), last = (o + 1) / orders - (o < orders - 1 ? 0.03 : 0);
      if (stacked && orders > 1) { first = o ? 0 : 0.58; last = o ? 0.42 : 1; }
      around["xaxis" + axis] = {
        domain: stacked ? [0, 1] : [first, last], anchor: "y" + axis, gridcolor: line, zeroline: false, tickformat: ".0%",
        range: [-0.02, 1.02], title: { text: "share removed", standoff: 6, font: { size: 13 } }
      };
      around["yaxis" + axis] = {
        domain: stacked ? [first, last] : [0, 1], anchor: "x" + axis, gridcolor: line, zeroline: false, range: [-0.04, 1.06],
        title: { text: o && !stacked ? "" : "probability", font: { size: 13 } }, showticklabels: !o || stacked
      };
      around.annotations.push({
        text: "<b>" + order.title + "</b>", showarrow: false, xref: "x" + axis + " domain", yref: "y" + axis + " domain",
        x: 0, y: 1, yanchor: "bottom", xanchor: "left", font: { size: 13 }
      });
    });
    return around;
  }

  var config = {
    responsive: true, displaylogo: false,
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]]
  };
  function draw() {
    if (current < 0 || !window.Plotly) { return; }
    get("sample-chart").setAttribute("aria-label", "Probability of sample " + data.ids[current] + " by the share removed. The table below has the numbers.");
    window.Plotly.react("sample-chart", traces(current), layout(narrow.matches), config);
  }

  function save(format) {
    if (format === "csv") { window.roadworthy.saveCsv("sample.csv", sampleRows(current)); return; }
    var lines = traces(current), around = layout(false);
    lines.forEach(function (line) { line.showlegend = line.xaxis === "x"; });
    around.showlegend = true;
    around.title = {
      text: "Sample " + inChart(data.ids[current]) + ": probability of " + inChart(data.names[code(current, 2)]),
      font: { size: 14 }, x: 0.01, xanchor: "left", y: 0.99, yanchor: "top"
    };
    around.margin.t = 60;
    around.legend = { orientation: "h", y: -0.18, yanchor: "top" };
    around.paper_bgcolor = variable("--bg");
    window.Plotly.downloadImage({ data: lines, layout: around }, { format: format, filename: "sample", width: 1000, height: 560, scale: 2 });
  }

  function sampleRows(s) {
    var from = layer(), rows = [["id", "method", "order", "fraction", "probability", "right"]], hidden = off();
    page.methods.forEach(function (method, m) {
      if (hidden[m]) { return; }
      page.orders.forEach(function (order, o) {
        page.fractions.forEach(function (p, i) {
          var place = cell(m, o, i);
          rows.push([data.ids[s], method.label, order.key, p, probability(from, s, place).toFixed(3), hits(from, s, place)]);
        });
      });
    });
    return rows;
  }

  /* -- what the controls do -- */
  function classes() {
    var seen = {};
    for (var s = 0; s < data.ids.length; s++) { seen[label(s)] = true; }
    var select = get("find-class");
    select.append(made("option", "any", { value: -1 }));
    Object.keys(seen).map(Number).sort(function (a, b) { return collator.compare(data.names[a], data.names[b]); })
      .forEach(function (place) { select.append(made("option", data.names[place], { value: place })); });
    if (!data.labelled) { get("find-class-word").textContent = "Answer"; }
  }

  function begin() {
    data = JSON.parse(get("samples-data").textContent);
    codes = bytes(data.codes);
    if (page.methods.length < 2) { sort.key = "m0"; }
    classes();
    get("find-id").addEventListener("input", find);
    ["find-class", "find-right", "find-kept", "find-readout"].forEach(function (id) { get(id).addEventListener("change", find); });
    get("find-layer").addEventListener("change", function () {
      find();
      if (current >= 0) { open(current, false); }
    });
    get("find-all").addEventListener("click", function () {
      get("find-id").value = "";
      get("find-class").value = "-1";
      get("find-right").value = "0";
      get("find-kept").checked = false;
      find();
    });
    get("page-first").addEventListener("click", function () { turn(0); });
    get("page-before").addEventListener("click", function () { turn(at - PAGE); });
    get("page-after").addEventListener("click", function () { turn(at + PAGE); });
    get("page-last").addEventListener("click", function () { turn(found.length); });
    get("list-csv").addEventListener("click", saveList);
    get("sample-before").addEventListener("click", function () { walk(-1); });
    get("sample-after").addEventListener("click", function () { walk(1); });
    get("sample-list").addEventListener("click", function () {
      var button = document.querySelector('#sample-rows button[data-row="' + current + '"]');
      (button || get("find-id")).focus();
    });
    all("button[data-sample-save]").forEach(function (button) {
      button.addEventListener("click", function () { save(button.getAttribute("data-sample-save")); });
    });
    window.roadworthy.onTheme(draw);
    narrow.addEventListener("change", draw);
    find();
  }

  box.addEventListener("toggle", function () { if (box.open && !data) { begin(); } });
})();
