// Keeps the page of a run up to date by server-sent events. Without this file the page is up to date after a reload.
"use strict";

(() => {
  const main = document.querySelector("[data-events]");
  if (!main || !window.EventSource) return;
  let source = null, lostAt = null, timer = null;

  function mark(live) {
    for (const element of document.querySelectorAll("[data-live-mark]")) {
      element.classList.toggle("lost", !live);
      element.textContent = live ? "live" : "connection lost";
    }
    const note = document.getElementById("lost");
    if (note) note.hidden = live;
  }

  function replace(html) {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    for (const fresh of parsed.querySelectorAll("[data-live]")) {
      const old = document.getElementById(fresh.id);
      if (!old || old.innerHTML === fresh.innerHTML) continue;
      const scroll = [...old.querySelectorAll(".log")].map((log) => log.scrollTop + log.clientHeight >= log.scrollHeight - 8 ? null : log.scrollTop);
      const open = [...old.querySelectorAll("details")].map((details) => details.open);
      old.innerHTML = fresh.innerHTML;
      [...old.querySelectorAll("details")].forEach((details, place) => { details.open = open[place] ?? details.open; });
      document.dispatchEvent(new Event("htmx:afterSettle")); // times in the reader's zone
      [...old.querySelectorAll(".log")].forEach((log, place) => { log.scrollTop = scroll[place] ?? log.scrollHeight; });
    }
    if (parsed.querySelector("title")) document.title = parsed.querySelector("title").textContent;
  }

  function connect() {
    clearTimeout(timer);
    if (source) source.close();
    source = new EventSource(main.dataset.events);
    source.addEventListener("state", (event) => { lostAt = null; mark(true); replace(event.data); });
    source.addEventListener("ended", () => { source.close(); location.reload(); });
    source.addEventListener("error", () => {
      lostAt ??= Date.now();
      mark(false);
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(connect, 4000);
    });
  }

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-reconnect]")) { event.preventDefault(); connect(); }
  });
  window.addEventListener("pagehide", () => source && source.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
  connect();
})();
