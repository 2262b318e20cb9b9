// Replaces the drawn charts by live ones of the same form: figures appear under the pointer, and a chart can be saved.
// Vega-Lite's expressions are interpreted (ast), so that the page may forbid eval.
"use strict";
(() => {
  const narrow = window.matchMedia("(max-width: 54rem)");
  const options = {
    renderer: "svg",
    ast: true,
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const draw = async () => {
    for (const chart of charts) {
      const figure = document.getElementById(chart.id);
      const place = document.createElement("div");
      place.className = "live";
      figure.querySelector(".live")?.remove();
      figure.querySelector(".drawn").hidden = false;
      figure.querySelector(".drawings").append(place);
      try {
        await vegaEmbed(place, narrow.matches ? chart.narrow : chart.wide, options);
        figure.querySelector(".drawn").hidden = true;
      } catch (error) {
        // The drawn chart stays.
        place.remove();
        console.warn(error);
      }
    }
    document.documentElement.dataset.charts = "live";
  };
  narrow.addEventListener("change", draw);
  draw();
})();
