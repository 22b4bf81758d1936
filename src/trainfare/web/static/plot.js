// The plot of time against cost, drawn by Vega without eval. A point chooses its row in the table, and a row its point.
"use strict";

(() => {
  let view = null;
  let drawn = "";

  function rowOf(key) {
    return [...document.querySelectorAll("#machines input[name=on]")].find((input) => input.value === key);
  }

  function pick(key) {
    for (const row of document.querySelectorAll("#machines tr.selected")) row.classList.remove("selected");
    const input = rowOf(key);
    if (input) {
      input.checked = true;
      input.closest("tr").classList.add("selected");
      for (const button of document.querySelectorAll("[data-confirm]")) button.textContent = input.dataset.button;
    }
    if (view) view.signal("picked", key).runAsync();
    return Boolean(input);
  }

  async function draw() {
    const container = document.getElementById("plot");
    const data = document.getElementById("plot-data");
    if (!container || !data || !window.vegaEmbed) return;
    const padding = 64;
    const width = Math.max(200, container.clientWidth - padding);
    const key = `${width} ${data.textContent}`;
    if (key === drawn) return;
    drawn = key;
    const spec = { ...JSON.parse(data.textContent), width };
    if (width < 420) spec.height = 330;
    const result = await window.vegaEmbed(container, spec, {
      actions: false, ast: true, renderer: "svg", defaultStyle: false,
      tooltip: { disableDefaultStyle: true, theme: "custom", offsetX: 14, offsetY: 14 },
    });
    if (view) view.finalize();
    view = result.view;
    for (const drawing of container.querySelectorAll("svg")) {
      drawing.setAttribute("aria-hidden", "true");
      drawing.setAttribute("focusable", "false");
    }
    view.addEventListener("click", (event, item) => {
      const point = item && item.datum && item.datum.key;
      if (!point) return;
      if (pick(point)) {
        rowOf(point).closest("tr").scrollIntoView({ block: "nearest" });
        return;
      }
      // The row is outside the filter: ask for the table with it.
      const pinned = document.getElementById("pin");
      if (pinned && window.htmx) { pinned.value = point; window.htmx.trigger("#question", "change"); }
    });
    const chosen = document.querySelector("#machines input[name=on]:checked");
    if (chosen && chosen.closest("tr")) view.signal("picked", chosen.value).runAsync();
  }

  document.addEventListener("change", (event) => {
    if (event.target.matches("#machines input[name=on]")) {
      const pinned = document.getElementById("pin");
      if (pinned) pinned.value = event.target.value;
      pick(event.target.value);
    }
  });
  document.addEventListener("click", (event) => {
    const row = event.target.closest && event.target.closest("#machines tbody tr");
    if (!row || event.target.closest("a, button, input")) return;
    const input = row.querySelector("input[name=on]");
    if (input) { input.checked = true; input.dispatchEvent(new Event("change", { bubbles: true })); }
  });
  document.addEventListener("htmx:afterSettle", () => {
    draw();
    const chosen = document.querySelector("#machines input[name=on]:checked");
    if (chosen) pick(chosen.value);
  });

  let resizing = 0;
  window.addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(draw, 150); });
  if (document.readyState === "complete") draw();
  else window.addEventListener("load", draw);
})();
