// The plot of time against cost, which the server has drawn: a dot chooses its row in the table, and a row its dot; the
// name of the dot under the pointer is shown. Without this file the plot is a picture, and the table works.
"use strict";

(() => {
  const rowOf = (key) => [...document.querySelectorAll("#machines input[name=on]")].find((input) => input.value === key);
  const dotOf = (key) => [...document.querySelectorAll("#plot [data-key]")].find((dot) => dot.dataset.key === key);

  function pick(key) {
    for (const row of document.querySelectorAll("#machines tr.selected")) row.classList.remove("selected");
    for (const dot of document.querySelectorAll("#plot .picked")) dot.classList.remove("picked");
    const input = rowOf(key), dot = dotOf(key), pinned = document.getElementById("pin");
    if (pinned) pinned.value = key;
    if (dot) dot.classList.add("picked");
    if (!input) return false;
    input.checked = true;
    input.closest("tr").classList.add("selected");
    for (const button of document.querySelectorAll("[data-confirm]")) button.textContent = input.dataset.button;
    return true;
  }

  // The dot nearest to the pointer, if one is near enough to be meant.
  function near(event) {
    const plot = document.getElementById("plot");
    if (!plot || !plot.contains(event.target)) return null;
    let best = null, least = event.pointerType === "touch" ? 24 : 14;
    for (const dot of plot.querySelectorAll("[data-key]")) {
      const box = dot.getBoundingClientRect();
      const distance = Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
      if (distance < least) { best = dot; least = distance; }
    }
    return best;
  }

  function showTip(dot) {
    const plot = document.getElementById("plot"), tip = document.getElementById("plot-tip");
    if (!tip) return;
    tip.hidden = !dot;
    if (!dot) return;
    tip.textContent = dot.dataset.text;
    const box = dot.getBoundingClientRect(), frame = plot.getBoundingClientRect();
    const left = Math.min(box.x - frame.x + 14, frame.width - tip.offsetWidth);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${box.y - frame.y + 16}px`;
  }

  document.addEventListener("pointermove", (event) => showTip(near(event)));
  document.addEventListener("click", (event) => {
    const dot = near(event);
    if (dot) {
      showTip(dot);
      const key = dot.dataset.key;
      if (pick(key)) rowOf(key).closest("tr").scrollIntoView({ block: "nearest" });
      // The row is outside the filter: ask for the table with it.
      else if (window.htmx) window.htmx.trigger("#question", "change");
      else document.getElementById("question").requestSubmit();
      return;
    }
    const row = event.target.closest && event.target.closest("#machines tbody tr");
    if (!row || event.target.closest("a, button, input, label")) return;
    const input = row.querySelector("input[name=on]");
    if (input) { input.checked = true; input.dispatchEvent(new Event("change", { bubbles: true })); }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("#machines input[name=on]")) pick(event.target.value);
  });

  function keepPick() {
    const chosen = document.querySelector("#machines input[name=on]:checked");
    if (!chosen) return;
    const pinned = document.getElementById("pin"), before = pinned ? pinned.value : "";
    pick(chosen.value);
    if (pinned) pinned.value = before; // the advised machine may change with the question; only a choice is kept
  }
  document.addEventListener("htmx:afterSettle", keepPick);
  document.addEventListener("DOMContentLoaded", keepPick);
})();
