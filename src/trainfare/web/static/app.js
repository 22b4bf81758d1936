// Improvements of the pages: times in the reader's zone, sliders that show their value, fields that appear when they are
// chosen, files by drag and drop, focus that survives a replaced part. Every page works without this file.
"use strict";

(() => {
  const minute = 60, hour = 3600, day = 86400;

  function ago(seconds) {
    if (seconds < 10) return "just now";
    if (seconds < minute) return `${Math.round(seconds)} s ago`;
    if (seconds < hour) return `${Math.round(seconds / minute)} min ago`;
    if (seconds < 2 * day) return `${Math.round(seconds / hour)} h ago`;
    return `${Math.round(seconds / day)} days ago`;
  }

  function showTimes(root) {
    const now = new Date();
    for (const element of root.querySelectorAll("time[datetime][data-format], text[data-datetime][data-format]")) {
      const then = new Date(element.getAttribute("datetime") || element.dataset.datetime);
      if (Number.isNaN(then.getTime())) continue;
      const sameDay = then.toDateString() === now.toDateString();
      const clock = then.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
      const date = then.toLocaleDateString("en-GB", {
        day: "numeric", month: "short", ...(then.getFullYear() === now.getFullYear() ? {} : { year: "numeric" }),
      });
      const format = element.dataset.format;
      const text = format === "time" ? clock
        : format === "date" ? date
        : format === "ago" ? ago((now - then) / 1000)
        : sameDay ? `today ${clock}` : `${date}, ${clock}`;
      if (element.textContent !== text) element.textContent = text;
      if (element.localName === "time") element.title = then.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "long" });
    }
  }

  function showSlider(input) {
    const texts = JSON.parse(input.dataset.texts);
    const text = texts[Number(input.value)];
    input.setAttribute("aria-valuetext", text);
    const output = document.getElementById(`${input.id}-text`);
    if (output) output.textContent = text;
    const sent = document.getElementById(`${input.id}-value`);
    if (sent && input.dataset.values) sent.value = JSON.parse(input.dataset.values)[Number(input.value)];
  }

  // Shows only the elements with data-for="<name>-<value>" of the chosen value.
  function showChosen(group) {
    const name = group.dataset.shows;
    const chosen = group.querySelector("input:checked");
    for (const element of document.querySelectorAll(`[data-for^="${CSS.escape(name)}-"]`)) {
      const shown = Boolean(chosen) && element.dataset.for.split(" ").includes(`${name}-${chosen.value}`);
      element.hidden = !shown;
    }
  }

  function setUp(root) {
    showTimes(root);
    for (const group of root.querySelectorAll("[data-shows]")) showChosen(group);
    for (const log of root.querySelectorAll(".log[data-follow]")) log.scrollTop = log.scrollHeight;
  }

  document.addEventListener("input", (event) => {
    if (event.target.matches("input[type=range][data-texts]")) showSlider(event.target);
  });
  document.addEventListener("change", (event) => {
    const group = event.target.closest("[data-shows]");
    if (group) showChosen(group);
    if (event.target.matches("input[type=file]")) {
      const name = document.getElementById(`${event.target.id}-name`);
      const file = event.target.files[0];
      if (name && file) name.textContent = `${file.name}, ${sizeText(file.size)}`;
    }
  });

  function sizeText(bytes) {
    if (bytes < 1000) return `${bytes} B`;
    if (bytes < 1e6) return `${Math.round(bytes / 1e3)} kB`;
    return `${(bytes / 1e6).toFixed(1)} MB`;
  }

  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      const zone = event.target.closest && event.target.closest(".drop");
      if (zone) zone.classList.toggle("over", kind === "dragenter" || kind === "dragover");
    });
  }

  // A menu or dialog closes by Escape or a click outside.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
    const opener = event.target.closest("[data-opens]");
    if (opener) {
      const dialog = document.getElementById(opener.dataset.opens);
      if (dialog && dialog.showModal) { event.preventDefault(); dialog.showModal(); }
    }
    const closer = event.target.closest("[data-closes]");
    if (closer) { event.preventDefault(); closer.closest("dialog").close(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });

  // htmx: the CSRF token, errors in words, and the focus after a part of the page was replaced.
  let focused = null;
  document.addEventListener("htmx:configRequest", (event) => {
    const token = document.querySelector("meta[name=csrf]").content;
    if (token && event.detail.verb !== "get") event.detail.headers["X-CSRF-Token"] = token;
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    // A page that explains what is wrong with the input is shown, too.
    if ([409, 413, 422].includes(event.detail.xhr.status)) { event.detail.shouldSwap = true; event.detail.isError = false; }
    focused = document.activeElement && document.activeElement.id ? document.activeElement.id : null;
  });
  document.addEventListener("htmx:afterSettle", () => {
    setUp(document);
    if (!focused) return;
    const element = document.getElementById(focused);
    if (element && element !== document.activeElement) element.focus({ preventScroll: true });
    focused = null;
  });
  function connectionLost() {
    const messages = document.getElementById("messages");
    if (!messages || document.getElementById("connection-lost")) return;
    const note = document.createElement("div");
    note.id = "connection-lost";
    note.className = "note warning";
    note.textContent = "The connection to this page's server was lost. What runs goes on; this page catches up by itself.";
    messages.append(note);
  }
  document.addEventListener("htmx:sendError", connectionLost);
  document.addEventListener("htmx:afterOnLoad", () => {
    const note = document.getElementById("connection-lost");
    if (note) note.remove();
  });

  setInterval(() => showTimes(document), 10_000);
  document.addEventListener("DOMContentLoaded", () => setUp(document));
  if (document.readyState !== "loading") setUp(document);
})();
