// The page's script: light and dark, interactive charts instead of the drawn ones, and printing.
// Vega-Lite's expressions are interpreted (ast), so that the page may forbid eval.
"use strict";
(() => {
  const root = document.documentElement;

  // Light or dark: kept only while the page is open.
  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("change", (event) => {
    if (event.target.value === "auto") delete root.dataset.theme;
    else root.dataset.theme = event.target.value;
  });

  // Print with all details open.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });

  // Make each chart interactive when it comes near the visible part of the page.
  const telephone = window.matchMedia("(max-width: 54rem)");
  const options = {
    renderer: "svg",
    ast: true,
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  const charts = JSON.parse(document.getElementById("charts").textContent);

  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    if (label) made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    return made;
  };

  // Vega gives a role to empty groups of marks, and no name to the menu that saves a chart.
  const name = (place) => {
    for (const each of place.querySelectorAll('[role="graphics-symbol"]:not([aria-label])')) each.removeAttribute("role");
    place.querySelector("summary")?.setAttribute("aria-label", "Save this chart");
  };

  const toggles = (chart, view) => {
    const group = document.createElement("div");
    group.className = "toggles";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Contenders shown");
    for (const [contender, colour, glyph] of chart.series) {
      const made = button(contender, "", async () => {
        const away = made.getAttribute("aria-pressed") === "true";
        made.setAttribute("aria-pressed", String(!away));
        chart.away = away ? [...chart.away, contender] : chart.away.filter((each) => each !== contender);
        await view.signal("hidden", chart.away).runAsync();
        name(view.container());
      });
      made.setAttribute("aria-pressed", String(!chart.away.includes(contender)));
      const mark = document.createElement("span");
      mark.setAttribute("aria-hidden", "true");
      mark.style.color = colour;
      mark.textContent = glyph + " ";
      made.prepend(mark);
      group.append(made);
    }
    return group;
  };

  // Zoom the axis of figures of each panel by moving its far end; without a factor, reset all axes.
  const zoom = async (chart, view, factor) => {
    for (const [[signal, name], ...others] of chart.zooms) {
      if (!factor) {
        for (const [each] of [[signal], ...others]) view.signal(each, null);
        continue;
      }
      const scale = view.scale(name);
      const [low, high] = scale.domain();
      const end = scale.type === "log" ? low * (high / low) ** factor : low + (high - low) * factor;
      view.signal(signal, [low, end]);
      // Vega accepts the ends of both axes or of neither.
      for (const [each, other] of others) view.signal(each, view.scale(other).domain());
    }
    await view.runAsync();
  };

  const zooms = (chart, view) => {
    const group = document.createElement("div");
    group.className = "zooms";
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Zoom");
    group.append(
      button("+", "Zoom in", () => zoom(chart, view, 2 / 3)),
      button("−", "Zoom out", () => zoom(chart, view, 3 / 2)),
      button("Reset", "Reset the zoom", () => zoom(chart, view, 0)),
    );
    const hint = document.createElement("span");
    hint.textContent = "Ctrl + wheel zooms, dragging moves, a double click resets";
    group.append(hint);
    return group;
  };

  const draw = async (chart) => {
    const figure = document.getElementById(chart.id);
    const drawn = figure.querySelector(".drawn");
    const place = document.createElement("div");
    const controls = document.createElement("div");
    chart.away ??= [];
    chart.view?.finalize();
    place.className = "live";
    controls.className = "controls";
    figure.querySelector(".live")?.remove();
    figure.querySelector(".controls")?.remove();
    drawn.hidden = false;
    figure.querySelector(".drawings").append(place);
    try {
      const { view } = await vegaEmbed(place, telephone.matches ? chart.narrow : chart.wide, options);
      chart.view = view;
      if (chart.series.length) controls.append(toggles(chart, view));
      if (chart.away.length) await view.signal("hidden", chart.away).runAsync();
      if (chart.zooms.length && !telephone.matches) controls.append(zooms(chart, view));
      if (controls.childElementCount) figure.querySelector(".drawings").before(controls);
      name(place);
      drawn.hidden = true;
      figure.dataset.chart = "live";
    } catch (error) {
      // Keep the drawn chart.
      place.remove();
      figure.dataset.chart = "drawn";
      console.warn(error);
    }
  };

  const named = new Map(charts.map((chart) => [chart.id, chart]));
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        draw(named.get(entry.target.id));
      }
    },
    { rootMargin: "600px 0px" },
  );
  const watch = () => {
    for (const chart of charts) near.observe(document.getElementById(chart.id));
  };
  telephone.addEventListener("change", watch);
  watch();
  root.dataset.charts = "live";
})();
