// The few things a page cannot do by itself: copy, keep times fresh, follow events.
"use strict";
(() => {
  // -- copy buttons: there only with script ---------------------------------------------------
  const prepare = (root) => {
    for (const button of root.querySelectorAll("button[data-copy][hidden]")) button.hidden = false;
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-copy]");
    if (!button) return;
    const text = document.getElementById(button.dataset.copy)?.textContent ?? "";
    const said = button.querySelector("span");
    const before = said.textContent;
    try {
      await navigator.clipboard.writeText(text.trim());
      said.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copy));
      said.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { said.textContent = before; }, 1600);
  });

  // -- times ----------------------------------------------------------------------------------
  const UNITS = [[31536000, "y"], [2592000, "mo"], [86400, "d"], [3600, "h"], [60, "min"]];
  const ago = (seconds) => {
    const size = Math.abs(seconds);
    const unit = UNITS.find(([most]) => size >= most);
    if (!unit && seconds > -5 && seconds < 5) return "just now";
    const text = unit ? `${Math.floor(size / unit[0])} ${unit[1]}` : `${size} s`;
    return seconds < -5 ? `in ${text}` : `${text} ago`;
  };
  const freshen = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const text = ago(Math.round((Date.now() - Date.parse(time.dateTime)) / 1000));
      if (time.textContent !== text) time.textContent = text;
    }
  };
  setInterval(freshen, 15000);

  // -- a menu closes when one looks elsewhere ---------------------------------------------------
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]"))
      if (!menu.contains(event.target)) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); }
  });

  // -- a form with a plan beside it: what was typed since is not what the plan shows -------------
  document.addEventListener("input", (event) => {
    if (!event.target.closest("form[data-plan]")) return;
    const plan = document.getElementById("plan");
    plan.setAttribute("aria-busy", "true"); // the next plan comes without it
    for (const button of plan.querySelectorAll("button[form]")) button.disabled = true;
  });
  document.addEventListener("htmx:after:swap", () => {
    for (const text of document.querySelectorAll("form[data-plan] .wrong")) {
      const field = document.querySelector(`[aria-describedby="${text.id}"]`);
      if (text.textContent) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
  });

  // -- events: the server sends the page anew, htmx changes what differs ------------------------
  const main = document.querySelector("main[data-live]");
  const counts = main?.dataset.live.startsWith("/live"); // of a run it is a mark, and no number of an event
  let source = null, last = Number(main?.dataset.last ?? 0), pause = 1000, timer = 0, shown = 0;
  const GONE = [401, 403, 404];
  let missed = false; // a page that could not be fetched: it is, once the server is back
  const tell = (state) => {
    for (const feed of document.querySelectorAll(".feed")) {
      feed.dataset.state = state;
      feed.querySelector("span").textContent = state === "on" ? "Updates on" : "Updates off";
    }
  };
  const refresh = () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      shown = performance.now();
      htmx.trigger(main, "live");
    }, Math.max(15, 300 - (performance.now() - shown)));
  };
  // what its viewer may not see any more: loaded anew, the page says why
  const leave = () => {
    close();
    const since = Date.now() - Number(sessionStorage.getItem("left") ?? 0);
    setTimeout(() => {
      sessionStorage.setItem("left", Date.now());
      location.reload();
    }, Math.max(0, 10000 - since));
  };
  const isGone = async () => {
    try {
      const asked = { headers: { "HX-Request": "true" }, redirect: "manual" };
      const answer = await fetch(main.getAttribute("hx-get"), asked);
      answer.body?.cancel();
      return answer.type === "opaqueredirect" || GONE.includes(answer.status);
    } catch {
      return false; // the server is away
    }
  };
  const open = () => {
    if (source || document.hidden) return;
    const here = encodeURIComponent(main.getAttribute("hx-get"));
    const mark = main.dataset.live.includes("?") ? "&" : "?";
    source = new EventSource(`${main.dataset.live}${mark}after=${last}&page=${here}`);
    source.onopen = () => {
      pause = 1000;
      tell("on");
      if (missed) { missed = false; refresh(); }
    };
    source.onerror = async () => {
      tell("off");
      if (source?.readyState !== EventSource.CLOSED) return; // the browser connects again by itself
      source = null;
      if (await isGone()) { leave(); return; }
      setTimeout(open, pause);
      pause = Math.min(pause * 2, 60000);
    };
    source.addEventListener("gone", leave);
    source.onmessage = (event) => {
      last = Number(event.lastEventId);
      document.dispatchEvent(new CustomEvent("gitsync:event", { detail: JSON.parse(event.data) }));
    };
    source.addEventListener("page", (event) => {
      htmx.swap({ sourceElement: main, target: main, text: JSON.parse(event.data), select: "#main", selectOOB: main.getAttribute("hx-select-oob"), swap: "outerMorph" });
    });
    source.addEventListener("look", refresh); // the server could not make the page
    source.addEventListener("reset", (event) => {
      last = Number(event.lastEventId);
      if (sessionStorage.getItem("reset") === event.lastEventId) { refresh(); return; }
      sessionStorage.setItem("reset", event.lastEventId);
      location.reload();
    });
  };
  const close = () => { source?.close(); source = null; };
  // a hidden page gives its connection back: browsers allow six per server
  document.addEventListener("visibilitychange", () => {
    if (!main) return;
    if (document.hidden) close(); else open();
  });
  addEventListener("pagehide", close);
  document.addEventListener("htmx:error", () => {
    missed = true;
    if (source?.readyState === EventSource.OPEN) setTimeout(() => { if (missed) refresh(); }, 2000);
  });
  // an answer without the part that is wanted (a proxy's error, say) changes nothing
  document.addEventListener("htmx:before:swap", (event) => {
    const ctx = event.detail?.ctx, answer = ctx?.response;
    const made = counts && /<main [^>]*data-last="(\d+)"/.exec(ctx?.text ?? "");
    // asked for before the page that is shown: it came later, but tells less
    if (made && ctx.sourceElement === main && Number(made[1]) < Number(main.dataset.last)) {
      event.preventDefault();
      return;
    }
    if (!answer || answer.status < 400) return;
    event.preventDefault();
    if (ctx.sourceElement === main && GONE.includes(answer.status)) leave();
  });
  document.addEventListener("htmx:after:swap", () => {
    missed = false;
    prepare(document);
    if (source) tell(source.readyState === EventSource.OPEN ? "on" : "off");
  });

  prepare(document);
  // on a narrow screen the tabs scroll: the current one is in view
  document.querySelector(".tabs a[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  if (main) open();
})();
