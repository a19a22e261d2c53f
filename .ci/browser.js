// Looks at a report from inside a frame: complaints go into a list at the end of the page around it, which --dump-dom prints.
(() => {
  const complaints = [];
  const complain = (words) => complaints.push(words);
  const wanted = frameElement.dataset;
  const width = Number(wanted.width);
  const name = (element) => `${element.tagName.toLowerCase()} “${(element.textContent || "").trim().slice(0, 40)}”`;

  // The window is the one that was asked for.
  if (innerWidth !== width) complain(`the window is ${innerWidth} pixels wide, not ${width}`);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  if (dark !== (wanted.scheme === "dark")) complain(`the colour scheme is not ${wanted.scheme}`);

  // Nothing is wider than the window, or than the box that it would scroll in.
  if (document.documentElement.scrollWidth > innerWidth) complain(`the page is wider than its window`);
  for (const element of document.body.querySelectorAll("*:not(script)")) {
    const box = element.getBoundingClientRect();
    const clipped = element.closest("g[clip-path], clipPath");
    if (!clipped && (box.right > innerWidth + 0.5 || box.left < -0.5)) complain(`${name(element)} is wider than the window`);
  }
  for (const box of document.querySelectorAll(".scroll")) {
    if (box.scrollWidth > box.clientWidth + 1) complain(`${box.getAttribute("aria-label")} is wider than its place`);
  }

  // Every figure is drawn, has words, and its labels do not touch.
  const charts = [...document.querySelectorAll("figure svg")];
  if (charts.length < 4) complain(`there are only ${charts.length} figures`);
  for (const chart of charts) {
    const title = chart.querySelector("title")?.textContent ?? "";
    const box = chart.getBoundingClientRect();
    if (box.width < 200 || box.height < 150) complain(`“${title}” is not drawn: ${box.width} × ${box.height}`);
    const marks = [...chart.querySelectorAll("g[clip-path] path:not(.reference)")];
    if (marks.length === 0) complain(`“${title}” is empty`);
    for (const mark of marks) {
      const extent = mark.getBBox();
      const dots = mark.classList.contains("dots");
      if (!dots && extent.width + extent.height === 0) complain(`a mark of “${title}” has no extent`);
      if (/NaN|Infinity|undefined/.test(mark.getAttribute("d"))) complain(`a mark of “${title}” has no place`);
    }
    const labels = (chart.getAttribute("aria-labelledby") ?? "").split(" ");
    for (const id of labels) {
      if (!(document.getElementById(id)?.textContent ?? "").trim()) complain(`“${title}” lacks the words of ${id}`);
    }
    const texts = [...chart.querySelectorAll("text")];
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((a, i) => {
      if (a.height < 9) complain(`“${texts[i].textContent}” of “${title}” is too small: ${a.height} pixels`);
      if (a.left < box.left - 0.5 || a.right > box.right + 0.5) complain(`“${texts[i].textContent}” leaves “${title}”`);
      boxes.slice(i + 1).forEach((b, j) => {
        // Boxes of lines are higher than their letters.
        const apart = a.right <= b.left || b.right <= a.left || a.bottom - 3 <= b.top || b.bottom - 3 <= a.top;
        if (!apart) complain(`“${texts[i].textContent}” and “${texts[i + 1 + j].textContent}” of “${title}” overlap`);
      });
    });
  }

  // Every text can be told from what is behind it (WCAG 2.2, 1.4.3: 4.5 to 1).
  const parse = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = colour.map((part) => part / 255).map((p) => (p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const [r, g, b, alpha = 1] = parse(getComputedStyle(at).backgroundColor);
      if (alpha > 0.99) return [r, g, b];
    }
    return dark ? [0, 0, 0] : [255, 255, 255];
  };
  const faint = new Set();
  for (const element of document.querySelectorAll("h1, h2, h3, p, li span, td, th, dt, dd, figcaption, caption, svg text, code")) {
    const style = getComputedStyle(element);
    const [r, g, b] = parse(element instanceof SVGElement ? style.fill : style.color);
    const [one, other] = [luminance([r, g, b]), luminance(background(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faint.add(`${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} has a contrast of ${contrast.toFixed(2)}`);
  }
  faint.forEach(complain);

  const list = document.createElement("ol");
  list.id = "looked";
  for (const words of complaints) {
    const item = document.createElement("li");
    item.textContent = words.replace(/\s+/g, " ");
    list.append("\n", item);
  }
  list.append("\n");
  parent.document.body.append("\n", list);
})();
